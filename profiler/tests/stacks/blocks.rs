//! From the events of bios and requests to facts and causes, and the same again from a kept log.

use std::io::Cursor;
use std::time::Duration;

use profiler::addr::{Avma, FileOffset, KernelOffset, Timestamp};
use profiler::event::read::LogReader;
use profiler::event::{
    Bio, Device, DeviceName, End, Event, Fault, FaultFile, FaultVma, FileId, FileName, KernelStack, Request,
    StackAhead, Stacks, Wait, Waker,
};
use profiler::fact::replay::log::LogSource;
use profiler::fact::request::{BioSource, Operation, RequestCoverage};
use profiler::fact::{Cause, EffectKind, FactSink, FactSource, Mark, Reason, RequestFact, SampleFact, Tables};
use profiler::unwind::NoBinaries;
use profiler_common::block::{
    BIO_CACHED, BIO_DEVICE, BIO_IN_CALL, BIO_IN_FAULT, BIO_KERNEL_THREAD, BIO_RECORDED, REQUEST_BIO_ONLY,
    REQUEST_UNSEEN_START, operation,
};
use profiler_common::fault::{FAULT_EXCEPTION, FAULT_HAS_FILE, FAULT_HAS_VMA, FAULT_STARTED};
use profiler_common::switch::{WAIT_BY_INTERRUPT, WAIT_IN_FAULT, WAIT_IO, WAIT_WOKEN, state};
use proptest::prelude::*;

use crate::harness::{at, log};

const DISK: Device = Device { major: 254, minor: 0 };
const MAPPER: Device = Device { major: 253, minor: 0 };
const LIBRARY: FileId = FileId {
    major: 254,
    minor: 1,
    inode: 77,
    generation: 0,
};

#[derive(Default, Debug, PartialEq)]
struct Requests {
    requests: Vec<RequestFact>,
    causes: Vec<Cause>,
}

impl FactSink for Requests {
    fn sample(&mut self, _: &Tables, _: &SampleFact) {}
    fn mark(&mut self, _: &Tables, _: &Mark) {}
    fn request(&mut self, tables: &Tables, request: &RequestFact) {
        assert!(request.device.index() < tables.devices.len());
        for bio in &request.bios {
            assert!(bio.thread.is_none_or(|thread| thread.index() < tables.threads.len()));
            assert!(bio.file.is_none_or(|file| file.index() < tables.files.len()));
        }
        self.requests.push(request.clone());
    }
    fn joined(&mut self, tables: &Tables, cause: &Cause) {
        assert!(cause.effect.thread.index() < tables.threads.len());
        self.causes.push(*cause);
    }
}

/// The facts of these events; a kept log gives the same.
fn facts(events: &[Event<'_>]) -> (Tables, Requests) {
    let replay = |events: &[Event<'_>]| {
        let mut source = LogSource::new(LogReader::new(Cursor::new(log(events))).unwrap(), &NoBinaries);
        let mut facts = Requests::default();
        let tables = source.replay(&mut facts).unwrap();
        let resolved = source.collect_resolved(&tables);
        (tables, facts, resolved)
    };
    let (tables, facts, resolved) = replay(events);
    let kept: Vec<Event<'_>> = events.iter().cloned().chain([Event::Resolved(resolved)]).collect();
    let (again, same, _) = replay(&kept);
    assert_eq!((&again, &same), (&tables, &facts));
    (tables, facts)
}

fn bio(time: u64, tid: u32, sector: u64, bytes: u32, page: u64) -> Bio {
    Bio {
        at: at(time, 7, tid),
        comm: b"reader".to_vec(),
        device: DISK,
        sector,
        bytes,
        operation: operation::READ,
        flags: BIO_RECORDED | BIO_CACHED | BIO_IN_FAULT,
        file: Some(LIBRARY),
        name: 0,
        page,
        call: None,
    }
}

fn request(end: u64, sector: u64, bytes: u32) -> Request {
    Request {
        at: at(end, 0, 0),
        device: DISK,
        sector,
        bytes,
        operation: operation::READ,
        ..Request::default()
    }
}

/// A thread faults, reads 16 KiB in two bios that the device gets as one request, and waits for it.
fn a_fault_that_reads() -> [Event<'static>; 9] {
    let ahead = |time| {
        Event::StackAhead(StackAhead {
            at: at(time, 7, 8),
            stacks: Stacks {
                kernel: 3,
                ..Stacks::default()
            },
        })
    };
    [
        Event::KernelStack(KernelStack {
            key: 3,
            frames: vec![KernelOffset(0x100)].into(),
        }),
        Event::DeviceName(DeviceName {
            device: DISK,
            name: "vda".into(),
            before: vec![10, 1, 100, 5],
            after: vec![11, 1, 132, 9],
        }),
        Event::FileName(FileName {
            file: LIBRARY,
            number: 0,
            path: b"/lib/x.so".to_vec(),
        }),
        ahead(1010),
        Event::Bio(bio(1010, 8, 800, 4096, 2)),
        Event::Bio(Bio {
            operation: operation::READ | operation::READ_AHEAD | operation::SYNC,
            ..bio(1011, 8, 808, 12288, 3)
        }),
        Event::Request(Request {
            queued: Some(Timestamp(1010)),
            inserted: Some(Timestamp(1020)),
            issued: Some(Timestamp(1030)),
            depth: 2,
            operation: operation::READ | operation::READ_AHEAD,
            ..request(1900, 800, 16384)
        }),
        Event::Wait(wait_for_it()),
        Event::Fault(fault_around_it()),
    ]
}

fn wait_for_it() -> Wait {
    Wait {
        at: at(1930, 7, 8),
        out: Timestamp(1050),
        end: Timestamp(1930),
        off: 880,
        queued: 20,
        longest: 880,
        count: 1,
        state: state::UNINTERRUPTIBLE,
        flags: WAIT_IO | WAIT_IN_FAULT | WAIT_WOKEN | WAIT_BY_INTERRUPT,
        waker: Some(Waker {
            time: Timestamp(1910),
            ..Waker::default()
        }),
        ..Wait::default()
    }
}

fn fault_around_it() -> Fault<'static> {
    Fault {
        at: at(1950, 7, 8),
        address: Avma(0x12345),
        start: Some(Timestamp(1000)),
        flags: FAULT_STARTED | FAULT_EXCEPTION | FAULT_HAS_VMA | FAULT_HAS_FILE,
        vma: Some(FaultVma {
            flags: 0,
            file: Some(FaultFile {
                file: LIBRARY,
                offset: FileOffset(0x3000),
                ..FaultFile::default()
            }),
        }),
        ..Fault::default()
    }
}

#[test]
fn from_the_function_to_the_sector() {
    let (tables, facts) = facts(&a_fault_that_reads());
    assert_eq!(
        (&*tables.devices[0].name, &*tables.devices[0].counted),
        ("vda", &[1, 0, 32, 4][..])
    );
    let [request] = facts.requests.as_slice() else {
        panic!("{:?}", facts.requests)
    };
    assert_eq!((request.start, request.end), (Timestamp(1010), Timestamp(1900)));
    let ns = |ns| Some(Duration::from_nanos(ns));
    assert_eq!((request.queued, request.service), (ns(20), ns(870)));
    assert!(request.scheduled && request.kind.read_ahead && !request.kind.sync && !request.bio_only);
    let [first, second] = request.bios.as_slice() else {
        panic!("{:?}", request.bios)
    };
    assert_eq!((first.offset, second.offset), (Some(2 * 4096), Some(3 * 4096)));
    assert_eq!(
        (first.source, first.in_fault, first.call),
        (BioSource::Cache, true, None)
    );
    assert!(
        first.stack.is_some() && second.stack.is_none(),
        "a stack arrived early for the first"
    );
    assert_eq!(&*tables.files[first.file.unwrap().index()].path, "/lib/x.so");

    let actual: Vec<_> = (facts.causes.iter())
        .map(|cause| match cause.reason {
            Reason::Request(request) => (cause.effect.kind, cause.effect.start, request.own, request.sector),
            Reason::Holder(_) => panic!("{cause:?}"),
        })
        .collect();
    assert_eq!(
        actual,
        [
            (EffectKind::Fault, Timestamp(1000), true, 800),
            (EffectKind::Wait, Timestamp(1050), true, 800)
        ]
    );
}

#[test]
fn kernel_thread_writes_and_unseen_starts() {
    let writeback = Bio {
        at: at(1000, 2, 2),
        comm: b"kworker/u4:1".to_vec(),
        operation: operation::WRITE | operation::META | operation::FUA,
        flags: BIO_KERNEL_THREAD | BIO_DEVICE | BIO_IN_CALL,
        call: Some(1),
        ..bio(1000, 2, 64, 4096, 8)
    };
    let write = Request {
        operation: operation::WRITE | operation::META | operation::FUA,
        error: 10,
        requeues: 3,
        ..request(1100, 64, 4096)
    };
    let early = Request {
        flags: REQUEST_UNSEEN_START,
        ..request(1050, 9000, 512)
    };
    let stacked = Bio {
        device: MAPPER,
        ..bio(1200, 7, 64, 4096, 8)
    };
    let mapped = Request {
        device: MAPPER,
        queued: Some(Timestamp(1200)),
        flags: REQUEST_BIO_ONLY,
        ..request(1300, 64, 4096)
    };
    let events = [
        Event::Bio(writeback),
        Event::Request(early),
        Event::Request(write),
        Event::Bio(stacked),
        Event::Request(mapped),
        Event::Bio(bio(1400, 7, 4096, 8192, 0)),
        Event::End(End {
            time: Timestamp(1500),
            ..End::default()
        }),
    ];
    let (tables, facts) = facts(&events);
    let [early, write, mapped, unfinished] = facts.requests.as_slice() else {
        panic!("{:?}", facts.requests)
    };
    assert_eq!(
        (early.coverage, early.bios.len(), early.service),
        (RequestCoverage::StartMissed, 0, None)
    );
    assert_eq!((early.start, early.end), (Timestamp(1050), Timestamp(1050)));
    assert_eq!(
        (write.operation, write.error, write.requeues),
        (Operation::Write, 10, 3)
    );
    assert!(write.kind.metadata && write.kind.fua);
    let by = &write.bios[0];
    assert_eq!(
        (&*by.name, by.thread, by.tid, by.call),
        ("kworker/u4:1", None, 2, Some(1))
    );
    assert_eq!(
        (by.source, by.file, by.offset),
        (BioSource::Metadata, None, Some(64 * 512))
    );
    let ns = |ns| Some(Duration::from_nanos(ns));
    assert_eq!((mapped.bio_only, mapped.queued, mapped.service), (true, ns(0), ns(100)));
    assert_eq!(tables.devices[mapped.device.index()].name, "253:0");
    assert_eq!(
        (unfinished.coverage, unfinished.end),
        (RequestCoverage::EndMissed, Timestamp(1500))
    );
    assert_eq!(
        (unfinished.start, unfinished.bytes, unfinished.service),
        (Timestamp(1400), 8192, None)
    );
    // The kernel thread does not belong to the recording.
    assert!(tables.threads.iter().all(|thread| thread.tid == 7));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn hostile_events_never_panic(
        steps in prop::collection::vec((0..6u8, any::<u64>(), 0..40u64, any::<u32>(), any::<u32>()), 0..30),
    ) {
        let mut events = Vec::new();
        for (kind, far, near, flags, bytes) in steps {
            let sector = if kind & 1 == 0 { near } else { far };
            let time = 200 + u64::from(flags % 300);
            let tid = 7 + flags % 2;
            events.push(match kind {
                0 | 1 => Event::Bio(Bio { operation: flags & 0x7f03, flags, bytes, page: far, ..bio(time, tid, sector, 0, 0) }),
                2 | 3 => Event::Request(Request {
                    operation: flags & 0x7f03, flags, depth: bytes, error: -5, queued: Some(Timestamp(near)), inserted: Some(Timestamp(far)),
                    issued: (kind == 3).then_some(Timestamp(far)), ..request(time, sector, bytes)
                }),
                4 => Event::DeviceName(DeviceName { device: DISK, name: "x".into(), before: vec![far, near], after: vec![near, far, 5] }),
                _ => Event::Wait(Wait {
                    at: at(time, 7, tid), out: Timestamp(far), end: Timestamp(time), off: far, count: bytes, flags, ..Wait::default()
                }),
            });
        }
        facts(&events);
    }
}
