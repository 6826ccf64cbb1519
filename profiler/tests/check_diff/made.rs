//! A synthetic recording in which every metric is known.

use std::time::Duration;

use fixtures::rows::{START, module, process, thread};
use profiler::addr::{Avma, FileOffset, KernelOffset, Svma, Timestamp};
use profiler::event::{FileId, HookStatus};
use profiler::fact::fault::{
    Access, Failure, FaultClass, FaultWaits, FilePlace, FileSection, Mapped, OtherFaults, PageRange,
};
use profiler::fact::request::{BioSource, Operation, RequestCoverage, RequestKind};
use profiler::fact::wait::{Coverage, WaitCall};
use profiler::fact::{
    BioFact, BlockDevice, DeviceId, FactSink, FactSource, FaultFact, Frame, FrameId, FrameName, Location, MappedFile,
    MappedFileId, ModuleId, ModuleKind, PagesBy, PagesReadFact, Recording, RequestFact, SampleFact, StackId, StackNode,
    Tables, ThreadId, WaitFact, WaitReason,
};
use profiler::report::metrics::{Facts, Metrics};

/// The facts of the recording, one list per kind.
#[derive(Debug, Clone, Default)]
pub struct Made {
    pub tables: Tables,
    pub samples: Vec<SampleFact>,
    pub reads: Vec<PagesReadFact>,
    pub faults: Vec<FaultFact>,
    pub waits: Vec<WaitFact>,
    pub requests: Vec<RequestFact>,
}

impl FactSource for Made {
    fn replay(&mut self, sink: &mut dyn FactSink) -> anyhow::Result<Tables> {
        let tables = &self.tables;
        self.samples.iter().for_each(|sample| sink.sample(tables, sample));
        // As in a recording, the pages that a fault reads are reported before the fault.
        let mut reads = self.reads.iter().peekable();
        for fault in &self.faults {
            let end = Timestamp(fault.start.0 + u64::try_from(fault.time().as_nanos()).unwrap());
            while let Some(read) = reads.next_if(|read| read.time <= end) {
                sink.pages_read(tables, read);
            }
            sink.fault(tables, fault);
        }
        reads.for_each(|read| sink.pages_read(tables, read));
        self.waits.iter().for_each(|wait| sink.wait(tables, wait));
        self.requests.iter().for_each(|request| sink.request(tables, request));
        Ok(tables.clone())
    }
}

impl Made {
    pub fn metrics(&self) -> Metrics {
        let mut facts = Facts::default();
        let tables = self.clone().replay(&mut facts).unwrap();
        Metrics::within(&tables, &facts, None)
    }
}

pub fn at(us: u64) -> Timestamp {
    Timestamp(START + us * 1000)
}

/// The stacks: `main`; `load`, called by it and then in the kernel; and a relocation by the dynamic
/// linker.
pub const MAIN: Option<StackId> = Some(StackId::new(0));
pub const LOAD: Option<StackId> = Some(StackId::new(2));
pub const RELOCATE: Option<StackId> = Some(StackId::new(3));

fn hook(noun: &str, hook: &str) -> HookStatus {
    HookStatus {
        noun: noun.into(),
        hook: hook.into(),
        refused: None,
        remedy: None,
    }
}

fn tables() -> Tables {
    let frame = |location| Frame {
        location,
        is_return_address: false,
    };
    let user = |module, svma| {
        frame(Location::Module {
            module: ModuleId(module),
            svma: Svma(svma),
        })
    };
    let kernel = frame(Location::Kernel {
        module: ModuleId(1),
        offset: KernelOffset(64),
    });
    let name = |(index, name): (u32, &str)| {
        let symbol = name.to_owned();
        (
            FrameId(index),
            FrameName {
                symbol: symbol.into(),
                ..FrameName::default()
            },
        )
    };
    let node = |parent: Option<u32>, frame| StackNode {
        parent: parent.map(StackId::new),
        frame: FrameId(frame),
    };
    let names = ["main", "load", "copy_to_user", "_dl_relocate_object"];
    let mut loader = module(ModuleKind::File, "ld-linux-x86-64.so.2");
    loader.path = "/lib64/ld-linux-x86-64.so.2".into();
    let mut demo = module(ModuleKind::File, "demo");
    demo.path = "/usr/bin/demo".into();
    let mut main = thread(0, 100, "demo");
    main.end = Some(at(900_000));
    main.cpu_time_after_last_sample = 1_000_000;
    let mut command = process(100, "demo");
    command.main_thread = Some(ThreadId(0));
    Tables {
        recording: Recording {
            command: vec!["demo".into()],
            scope: "command".into(),
            start: at(0),
            end: at(1_000_000),
            requests_seen: 3,
            waits_seen: 3,
            hooks: vec![
                hook("fault", "fentry/fexit handle_mm_fault"),
                hook("switch", "tp_btf/sched_waking"),
                hook("block", "tp_btf/block_rq_complete"),
            ],
            ..Recording::default()
        },
        processes: vec![command],
        threads: vec![main, thread(0, 101, "worker")],
        modules: vec![demo, module(ModuleKind::Kernel, "[kernel]"), loader],
        frames: vec![user(0, 0), user(0, 16), kernel, user(2, 0)],
        stacks: vec![node(None, 0), node(Some(0), 1), node(Some(1), 2), node(None, 3)],
        files: vec![file()],
        devices: vec![BlockDevice {
            major: 254,
            minor: 0,
            name: "vda".into(),
            counted: Vec::new(),
        }],
        names: (0..).zip(names).map(name).collect(),
        sources: std::collections::HashMap::default(),
    }
}

fn file() -> MappedFile {
    let section = |name: &str, offset, size| FileSection {
        name: name.into(),
        offset,
        size,
        svma: offset,
    };
    MappedFile {
        id: FileId {
            major: 254,
            minor: 1,
            inode: 7,
            generation: 0,
        },
        path: "/usr/lib/libdemo.so".into(),
        sections: vec![section(".text", 0, 0x8000), section(".data", 0x8000, 0x8000)],
        ..MappedFile::default()
    }
}

/// A fault of the main thread that takes 10 µs.
pub fn fault(us: u64, class: FaultClass, page: Option<u64>, stack: Option<StackId>) -> FaultFact {
    let place = page.map(|page| FilePlace {
        file: MappedFileId(0),
        offset: FileOffset(page * 4096),
        byte: FileOffset(page * 4096),
    });
    FaultFact {
        start: at(us),
        latency: Some(Duration::from_micros(10)),
        thread: ThreadId(0),
        stack,
        address: Avma(0x7f00_0000_0000 + us * 4096),
        access: Access::Read,
        class,
        place,
        major: false,
        in_kernel: false,
        remote: false,
        failed: None,
        waits: FaultWaits::default(),
        retries: Some(0),
        mapped: Some(Mapped::own()),
        pages_read: 0,
        read_around_off: false,
        others: OtherFaults::default(),
    }
}

/// A wait of the main thread in `load`, `long` µs long.
pub fn wait(us: u64, long: u64, reason: WaitReason) -> WaitFact {
    WaitFact {
        start: at(us),
        end: at(us + long),
        thread: ThreadId(0),
        stack: LOAD,
        off: Duration::from_micros(long),
        queued: Duration::ZERO,
        longest: Duration::from_micros(long),
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

/// A request for `bytes` bytes of libdemo.so, submitted by the thread, or by a kernel thread if
/// `None`.
pub fn request(us: u64, bytes: u32, thread: Option<u32>, operation: Operation) -> RequestFact {
    let bio = BioFact {
        time: at(us),
        pid: 100,
        tid: 100,
        name: "demo".into(),
        thread: thread.map(ThreadId),
        stack: thread.and(LOAD),
        sector: us,
        bytes,
        file: Some(MappedFileId(0)),
        offset: Some(0),
        source: BioSource::Cache,
        in_fault: true,
        call: None,
    };
    RequestFact {
        start: at(us),
        end: at(us + 100),
        device: DeviceId(0),
        sector: us,
        bytes,
        operation,
        kind: RequestKind::default(),
        queued: None,
        service: None,
        scheduled: false,
        depth: 1,
        error: 0,
        requeues: 0,
        coverage: RequestCoverage::Full,
        bio_only: false,
        bios: vec![bio],
    }
}

fn sample(us: u64, ms: u64, stack: Option<StackId>) -> SampleFact {
    SampleFact {
        time: at(us),
        thread: ThreadId(0),
        stack,
        cpu_time: Duration::from_millis(ms),
        in_kernel: false,
        weight: 1,
    }
}

/// 7 faults, of which one failed, 3 waits, 3 requests and 3 samples.
pub fn recording() -> Made {
    let major = FaultFact {
        major: true,
        latency: Some(Duration::from_millis(6)),
        pages_read: 4,
        retries: Some(1),
        ..fault(1000, FaultClass::FileRead, Some(0), LOAD)
    };
    let failed = FaultFact {
        failed: Some(Failure::Segv),
        major: true,
        ..fault(50_000, FaultClass::Error, None, MAIN)
    };
    let copied = |us, page, stack| FaultFact {
        access: Access::Write,
        ..fault(us, FaultClass::FileCow, Some(page), stack)
    };
    let of_worker = FaultFact {
        thread: ThreadId(1),
        ..fault(70_000, FaultClass::Cow, None, MAIN)
    };
    let call = WaitCall {
        number: 0,
        name: "read".into(),
        file: None,
        path: Some("/etc/demo.conf".into()),
    };
    Made {
        tables: tables(),
        samples: vec![sample(2000, 3, MAIN), sample(8000, 4, LOAD), sample(9000, 2, None)],
        reads: vec![PagesReadFact {
            time: at(1001),
            thread: ThreadId(0),
            file: MappedFileId(0),
            pages: PageRange { first: 0, count: 4 },
            by: PagesBy::Fault,
            order: Some(0),
        }],
        faults: vec![
            copied(100, 8, RELOCATE),
            major,
            fault(20_000, FaultClass::FileRead, Some(2), LOAD),
            copied(30_000, 9, MAIN),
            failed,
            fault(60_000, FaultClass::Anonymous, None, MAIN),
            of_worker,
        ],
        waits: vec![
            WaitFact {
                in_fault: true,
                ..wait(1100, 5000, WaitReason::Disk)
            },
            wait(200_000, 100_000, WaitReason::Poll),
            WaitFact {
                call: Some(call),
                ..wait(400_000, 2000, WaitReason::Disk)
            },
        ],
        requests: vec![
            request(1050, 16384, Some(0), Operation::Read),
            request(2000, 4096, None, Operation::Read),
            request(3000, 4096, Some(0), Operation::Write),
        ],
    }
}
