//! Waits, block requests, and why waits and faults took so long, of every kind.

use std::time::Duration;

use profiler::addr::Timestamp;
use profiler::fact::request::{BioFact, BioSource, Operation, RequestCoverage, RequestKind};
use profiler::fact::wait::{Coverage, WaitCall, WaitReason, WakerFact};
use profiler::fact::{
    BlockDevice, Cause, DeviceId, Effect, EffectKind, HolderRef, MappedFileId, Reason, RequestFact, RequestRef,
    StackId, ThreadId, WaitFact,
};

use super::{Synthetic, at};

/// A completely observed wait of a thread, from and to a time in ms, without waiting for a CPU.
pub fn wait(start: u64, end: u64, thread: u32, reason: WaitReason) -> WaitFact {
    let off = Duration::from_millis(end - start);
    WaitFact {
        start: at(start),
        end: at(end),
        thread: ThreadId(thread),
        stack: Some(StackId::new(3)),
        off,
        queued: Duration::ZERO,
        longest: off,
        count: 1,
        reason,
        call: None,
        waker: None,
        coverage: Coverage::Full,
        in_fault: false,
        cpu: None,
        futex: None,
        lock: None,
        priority: None,
    }
}

/// A read of 128 KiB by thread 0, queued for one ms.
pub fn request(start: u64, end: u64) -> RequestFact {
    let bio = BioFact {
        time: at(start),
        pid: 100,
        tid: 100,
        name: "demo".into(),
        thread: Some(ThreadId(0)),
        stack: Some(StackId::new(2)),
        sector: 8,
        bytes: 128 << 10,
        file: Some(MappedFileId(0)),
        offset: Some(0x2000),
        source: BioSource::Cache,
        in_fault: true,
        call: None,
    };
    RequestFact {
        start: at(start),
        end: at(end),
        device: DeviceId(0),
        sector: 8,
        bytes: 128 << 10,
        operation: Operation::Read,
        kind: RequestKind {
            read_ahead: true,
            sync: true,
            ..RequestKind::default()
        },
        queued: Some(Duration::from_millis(1)),
        service: Some(Duration::from_millis(end - start - 1)),
        scheduled: false,
        depth: 1,
        error: 0,
        requeues: 0,
        coverage: RequestCoverage::Full,
        bio_only: false,
        bios: vec![bio],
    }
}

pub fn cause(request: &RequestFact, kind: EffectKind, thread: u32, start: Timestamp) -> Cause {
    Cause {
        effect: Effect {
            kind,
            thread: ThreadId(thread),
            start,
        },
        reason: Reason::Request(RequestRef {
            own: thread == 0,
            by: Some(ThreadId(0)),
            device: request.device,
            sector: request.sector,
            start: request.start,
            end: request.end,
            operation: request.operation,
            kind: request.kind,
            bytes: request.bytes,
            file: Some(MappedFileId(0)),
            offset: Some(0x2000),
        }),
    }
}

/// Adds two devices, waits that differ in every field, requests, and causes of both kinds.
pub fn add(synthetic: &mut Synthetic, evil: &[String]) {
    let device = |minor, name: &str| BlockDevice {
        major: 254,
        minor,
        name: name.into(),
        counted: vec![u64::MAX; 3],
    };
    synthetic.tables.devices = vec![device(0, "vda"), device(16, &evil[1])];
    synthetic.waits = waits(evil);
    synthetic.requests = requests(evil);
    synthetic.causes = causes(&synthetic.requests[0]);
    synthetic.tables.recording.waits_seen = synthetic.waits.iter().map(|wait| u64::from(wait.count)).sum();
    synthetic.tables.recording.requests_seen = 3;
}

/// Thread 0 waits for a disk, 1 for a lock, a pipe and a file system, 2 for its first CPU, 4 is idle.
fn waits(evil: &[String]) -> Vec<WaitFact> {
    let read = WaitCall {
        number: 0,
        name: "read".into(),
        file: Some(MappedFileId(1)),
        path: None,
    };
    let for_disk = WaitFact {
        stack: Some(StackId::new(4)),
        queued: Duration::from_nanos(1_500_001),
        call: Some(read),
        waker: Some(WakerFact {
            time: Timestamp(at(66).0 - 1_500_001),
            pid: 0,
            tid: 0,
            thread: None,
            stack: Some(StackId::new(3)),
            by_interrupt: Some(true),
        }),
        ..wait(60, 66, 0, WaitReason::Disk)
    };
    let lock = WaitFact {
        waker: Some(WakerFact {
            time: at(39),
            pid: 100,
            tid: 100,
            thread: Some(ThreadId(0)),
            stack: Some(StackId::new(2)),
            by_interrupt: Some(false),
        }),
        call: Some(WaitCall {
            number: 202,
            name: "futex".into(),
            file: None,
            path: None,
        }),
        ..wait(30, 40, 1, WaitReason::Lock)
    };
    let several = WaitFact {
        off: Duration::from_micros(700),
        queued: Duration::from_micros(20),
        longest: Duration::from_micros(90),
        count: 12,
        coverage: Coverage::StackReused,
        ..wait(42, 48, 1, WaitReason::Pipe)
    };
    let opened = WaitFact {
        call: Some(WaitCall {
            number: 257,
            name: "openat".into(),
            file: None,
            path: Some(evil[0].clone()),
        }),
        ..wait(50, 51, 1, WaitReason::FileSystem)
    };
    vec![
        for_disk,
        lock,
        several,
        opened,
        WaitFact {
            in_fault: true,
            ..wait(11, 14, 0, WaitReason::Disk)
        },
        WaitFact {
            stack: None,
            coverage: Coverage::StartMissed,
            ..wait(0, 90, 4, WaitReason::Poll)
        },
        WaitFact {
            queued: Duration::from_millis(3),
            ..wait(0, 3, 2, WaitReason::RunQueue)
        },
        WaitFact {
            coverage: Coverage::EndMissed,
            ..wait(99, 100, 4, WaitReason::Sleep)
        },
        wait(20, 20, 3, WaitReason::Unknown),
    ]
}

/// A read, a write by two threads one of which is not recorded, and one that is odd in every field.
fn requests(evil: &[String]) -> Vec<RequestFact> {
    let odd = RequestFact {
        device: DeviceId(1),
        sector: u64::MAX,
        operation: Operation::Flush,
        kind: RequestKind {
            metadata: true,
            fua: true,
            ..RequestKind::default()
        },
        queued: None,
        service: None,
        scheduled: true,
        depth: u32::MAX,
        error: -5,
        requeues: 3,
        coverage: RequestCoverage::EndMissed,
        bio_only: true,
        bios: Vec::new(),
        ..request(80, 100)
    };
    let mut shared = request(61, 64);
    let first = shared.bios[0].clone();
    shared.operation = Operation::Write;
    shared.bios = vec![
        BioFact {
            bytes: 64 << 10,
            ..first.clone()
        },
        BioFact {
            thread: None,
            stack: None,
            name: evil[0].clone(),
            file: None,
            offset: None,
            source: BioSource::Metadata,
            in_fault: false,
            call: Some(1),
            sector: u64::MAX,
            bytes: 64 << 10,
            ..first
        },
    ];
    vec![request(10, 13), shared, odd]
}

/// Causes of the faults and the wait for the read, and of the wait for a lock held by the faulting thread.
fn causes(read: &RequestFact) -> Vec<Cause> {
    let holder = Cause {
        effect: Effect {
            kind: EffectKind::Wait,
            thread: ThreadId(1),
            start: at(30),
        },
        reason: Reason::Holder(HolderRef {
            effect: Effect {
                kind: EffectKind::Fault,
                thread: ThreadId(0),
                start: at(10),
            },
            end: at(15),
        }),
    };
    vec![
        cause(read, EffectKind::Fault, 0, at(10)),
        cause(read, EffectKind::Fault, 1, at(12)),
        cause(read, EffectKind::Wait, 0, at(11)),
        holder,
    ]
}
