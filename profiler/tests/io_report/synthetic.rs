//! A synthetic recording of requests in which every sum is known.

use std::time::Duration;

use fixtures::rows::{START, module, process, thread};
use profiler::addr::{KernelOffset, Svma, Timestamp};
use profiler::event::FileId;
use profiler::fact::request::{BioSource, DeviceId, Operation, RequestCoverage, RequestKind};
use profiler::fact::{
    BioFact, BlockDevice, Cause, FactSink, FactSource, FaultFact, Frame, FrameId, FrameName, Location, MappedFile,
    MappedFileId, ModuleId, ModuleKind, Recording, RequestFact, StackId, StackNode, Tables, ThreadId, WaitFact,
};

/// The facts of the recording, in order.
#[derive(Debug, Clone)]
pub enum Fact {
    Request(RequestFact),
    Fault(FaultFact),
    Wait(WaitFact),
    Cause(Cause),
}

/// Tables and facts, as a source provides them.
#[derive(Debug, Clone, Default)]
pub struct Made {
    pub tables: Tables,
    pub facts: Vec<Fact>,
}

impl FactSource for Made {
    fn replay(&mut self, sink: &mut dyn FactSink) -> anyhow::Result<Tables> {
        for fact in &self.facts {
            match fact {
                Fact::Request(request) => sink.request(&self.tables, request),
                Fact::Fault(fault) => sink.fault(&self.tables, fault),
                Fact::Wait(wait) => sink.wait(&self.tables, wait),
                Fact::Cause(cause) => sink.joined(&self.tables, cause),
            }
        }
        Ok(self.tables.clone())
    }
}

pub fn at(us: u64) -> Timestamp {
    Timestamp(START + us * 1000)
}

fn device(minor: u32, name: &str, counted: &[u64]) -> BlockDevice {
    BlockDevice {
        major: 254,
        minor,
        name: name.into(),
        counted: counted.to_vec(),
    }
}

fn file(path: &str, inode: u64) -> MappedFile {
    MappedFile {
        id: FileId {
            major: 254,
            minor: 1,
            inode,
            generation: 0,
        },
        path: path.into(),
        ..MappedFile::default()
    }
}

/// Two processes, two files, three devices of which one is stacked, and two functions below `main`.
pub fn empty() -> Made {
    let frame = |location| Frame {
        location,
        is_return_address: false,
    };
    let user = |svma| {
        frame(Location::Module {
            module: ModuleId(0),
            svma: Svma(svma),
        })
    };
    let kernel = frame(Location::Kernel {
        module: ModuleId(1),
        offset: KernelOffset(64),
    });
    let names = ["main", "load_page", "save, \"all\"\n", "submit_bio"];
    let name = |(index, name): (u32, &str)| {
        let name = FrameName {
            symbol: name.into(),
            ..FrameName::default()
        };
        (FrameId(index), name)
    };
    let node = |parent: Option<u32>, frame| StackNode {
        parent: parent.map(StackId::new),
        frame: FrameId(frame),
    };
    let tables = Tables {
        recording: Recording {
            command: vec!["demo".into()],
            start: at(0),
            end: at(1_000_000),
            ..Recording::default()
        },
        processes: vec![process(100, "demo"), process(200, "child")],
        threads: vec![thread(0, 100, "demo"), thread(1, 201, "worker")],
        modules: vec![module(ModuleKind::File, "demo"), module(ModuleKind::Kernel, "[kernel]")],
        frames: vec![user(0), user(16), user(32), kernel],
        // 2: main, load_page, the kernel; 4: main, save, the kernel; 5: the kernel only.
        stacks: vec![
            node(None, 0),
            node(Some(0), 1),
            node(Some(1), 3),
            node(Some(0), 2),
            node(Some(3), 3),
            node(None, 3),
        ],
        files: vec![file("/usr/lib/libdemo.so", 7), file("/data/out, \"1\".bin", 8)],
        devices: vec![device(0, "vda", &[]), device(1, "dm-0", &[]), device(2, "zram0", &[])],
        names: (0..).zip(names).map(name).collect(),
        sources: std::collections::HashMap::default(),
    };
    Made {
        tables,
        facts: Vec::new(),
    }
}

/// A read or write of libdemo.so by thread 0 in `load_page`.
pub fn bio(us: u64, sector: u64, bytes: u32) -> BioFact {
    BioFact {
        time: at(us),
        pid: 100,
        tid: 100,
        name: "demo".into(),
        thread: Some(ThreadId(0)),
        stack: Some(StackId::new(2)),
        sector,
        bytes,
        file: Some(MappedFileId(0)),
        offset: Some(sector * 512),
        source: BioSource::Cache,
        in_fault: true,
        call: None,
    }
}

/// A part of the other file that a kworker writes back.
pub fn written_back(us: u64, sector: u64, bytes: u32) -> BioFact {
    BioFact {
        pid: 9,
        tid: 9,
        name: format!("kworker/u4:{us}"),
        thread: None,
        stack: None,
        file: Some(MappedFileId(1)),
        in_fault: false,
        ..bio(us, sector, bytes)
    }
}

/// A request of `vda` that took 20 µs to reach the device and 100 µs there.
pub fn request(operation: Operation, bios: Vec<BioFact>) -> RequestFact {
    let start = bios.iter().map(|bio| bio.time).min().unwrap_or(at(1));
    RequestFact {
        start,
        end: Timestamp(start.0 + 120_000),
        device: DeviceId(0),
        sector: bios.first().map_or(0, |bio| bio.sector),
        bytes: bios.iter().fold(0, |sum: u32, bio| sum.saturating_add(bio.bytes)),
        operation,
        kind: RequestKind::default(),
        queued: Some(Duration::from_micros(20)),
        service: Some(Duration::from_micros(100)),
        scheduled: false,
        depth: 1,
        error: 0,
        requeues: 0,
        coverage: RequestCoverage::Full,
        bio_only: false,
        bios,
    }
}
