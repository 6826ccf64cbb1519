//! Synthetic recordings with known numbers.
// Each test uses a part of it.
#![allow(dead_code, unused_imports, clippy::unwrap_used)]

mod faults;
mod large;
mod recording;
mod waits;

use std::time::Duration;

use fixtures::rows;
use profiler::addr::{Avma, FileOffset, KernelOffset, Svma, Timestamp};
use profiler::event::{FileId, HookStatus};
use profiler::fact::reduce::budget::{Budget, Collected, Collector};
use profiler::fact::{
    Cause, FactSink, FaultFact, Frame, FrameId, FrameName, Location, Mark, MarkKind, Module, ModuleId, ModuleKind,
    PagesReadFact, Process, ProcessId, Recording, RequestFact, SampleFact, SourceFrame, StackEnds, StackId, StackNode,
    Tables, Thread, ThreadId, TruncationReason, WaitFact, WaitReason, Walks,
};
use profiler::profile::{PathLink, PathPiece, PathTrack};

pub use faults::{fault, read};
pub use large::large;
pub use recording::recording;
pub use waits::{cause, request, wait};

/// Milliseconds in ns.
pub const MS: u64 = 1_000_000;
/// The id of a container.
pub const CONTAINER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// The recording's first moment: beyond the precision of a JavaScript number.
pub const START: u64 = (1 << 60) + 123_456_789;

/// A recording: the facts that a source would emit.
#[derive(Debug, Clone, Default)]
pub struct Synthetic {
    pub tables: Tables,
    pub samples: Vec<SampleFact>,
    pub marks: Vec<Mark>,
    pub faults: Vec<FaultFact>,
    pub reads: Vec<PagesReadFact>,
    pub waits: Vec<WaitFact>,
    pub requests: Vec<RequestFact>,
    pub causes: Vec<Cause>,
}

impl Synthetic {
    pub fn collect(&self, budget: Budget) -> (Tables, Collected) {
        let mut tables = self.tables.clone();
        let mut collector = Collector::new(budget);
        self.samples.iter().for_each(|sample| collector.sample(&tables, sample));
        self.marks.iter().for_each(|mark| collector.mark(&tables, mark));
        self.faults.iter().for_each(|fault| collector.fault(&tables, fault));
        self.reads.iter().for_each(|read| collector.pages_read(&tables, read));
        self.waits.iter().for_each(|wait| collector.wait(&tables, wait));
        self.requests
            .iter()
            .for_each(|request| collector.request(&tables, request));
        self.causes.iter().for_each(|cause| collector.joined(&tables, cause));
        let collected = collector.finish(&mut tables);
        (tables, collected)
    }

    /// The profile with the track of a path as JSON.
    pub fn json_with(&self, path: &PathTrack) -> Vec<u8> {
        let (tables, collected) = self.collect(Budget::default());
        let mut out = Vec::new();
        profile::write_with_path(&tables, &collected, Some(path), &mut out).unwrap();
        out
    }

    /// The profile as JSON.
    pub fn json(&self) -> Vec<u8> {
        let (tables, collected) = self.collect(Budget::default());
        let mut out = Vec::new();
        profile::write(&tables, &collected, &mut out).unwrap();
        out
    }
}

pub fn at(ms: u64) -> Timestamp {
    Timestamp(START + ms * MS)
}

pub fn process(pid: u32, name: &str, parent: Option<u32>, main: u32) -> Process {
    Process {
        path: format!("/usr/bin/{name}"),
        command_line: vec![name.into(), "--flag".into()].into(),
        parent: parent.map(ProcessId),
        main_thread: Some(ThreadId(main)),
        start: at(0),
        cgroup: Some(format!("/system.slice/{name}.service").into()),
        cgroup_inherited: parent.is_some(),
        ..rows::process(pid, name)
    }
}

pub fn thread(process: u32, tid: u32, name: &str, is_main: bool) -> Thread {
    Thread {
        is_main,
        start: at(0),
        ..rows::thread(process, tid, name)
    }
}

pub fn module(kind: ModuleKind, name: &str, base: u64) -> Module {
    Module {
        kind,
        name: name.into(),
        path: if kind == ModuleKind::File {
            format!("/usr/lib/{name}")
        } else {
            String::new()
        },
        file: FileId {
            major: 8,
            minor: 1,
            inode: if kind == ModuleKind::File { u64::MAX } else { 0 },
            generation: 0,
        },
        build_id: if kind == ModuleKind::File {
            (0..20).collect()
        } else {
            Vec::new()
        },
        base_svma: Svma(base),
        deleted: false,
        problem: None,
    }
}

pub fn named(functions: &[(&str, Option<&str>, Option<u32>)], start: u64, size: Option<u64>) -> FrameName {
    let chain = functions.iter().map(|(function, file, line)| SourceFrame {
        function: (*function).into(),
        file: file.map(Into::into),
        line: *line,
    });
    FrameName {
        symbol: functions.last().unwrap().0.into(),
        symbol_start: start,
        symbol_size: size,
        inline_chain: chain.collect(),
    }
}

/// A path of thread 1 over 100 ms, of which thread 0 had 9 ms and a page fault 6 ms.
pub fn path_track() -> PathTrack {
    let piece = |start, end, thread, stack: Option<u32>, wait| PathPiece {
        start: at(start),
        end: at(end),
        thread: ThreadId(thread),
        stack: stack.map(StackId::new),
        wait,
    };
    let link = |start, end, thread, via: Option<WaitReason>, wait: Option<u64>| PathLink {
        start: at(start),
        end: at(end),
        thread: ThreadId(thread),
        via,
        part: hostile()[0].clone(),
        wait: wait.map(|moment| (ThreadId(1), at(moment))),
    };
    PathTrack {
        thread: ThreadId(1),
        pieces: vec![
            piece(0, 30, 1, Some(1), None),
            piece(30, 39, 0, Some(0), None),
            piece(39, 45, 1, Some(0), Some((WaitReason::Unknown, true))),
            piece(45, 60, 1, None, Some((WaitReason::Poll, false))),
            piece(60, 100, 0, None, Some((WaitReason::RunQueue, false))),
        ],
        links: vec![
            link(0, 30, 1, None, None),
            link(30, 39, 0, Some(WaitReason::Lock), Some(39)),
        ],
    }
}

/// Names that break careless writers: line ends, NUL, 10 kB, emoji, what was invalid UTF-8, JSON and HTML.
pub fn hostile() -> [String; 6] {
    [
        "line\nend\r\u{2028}".into(),
        "nul\0nul".into(),
        "x".repeat(10_000),
        "🦀\u{10ffff}".into(),
        String::from_utf8_lossy(b"bad \xff\xfe bytes").into_owned(),
        "\"}],\\<script>\u{1b}[31m".into(),
    ]
}

/// Every kind of frame, hostile names everywhere, a reused pid, inline chains, marks of every kind.
pub fn everything() -> Synthetic {
    let evil = hostile();
    let mut tables = Tables {
        recording: recording(),
        ..Tables::default()
    };
    tables.processes = vec![
        process(100, "demo", None, 0),
        process(200, &evil[0], Some(0), 2),
        Process {
            cgroup: Some(format!("/kubepods.slice/cri-containerd-{CONTAINER}.scope").into()),
            ..process(200, &evil[1], Some(1), 3)
        },
    ];
    tables.processes[1].end = Some(at(50));
    tables.processes[1].exit_code = Some(9);
    tables.processes[1].command_line = evil.to_vec().into();
    tables.threads = vec![
        thread(0, 100, "demo", true),
        thread(0, 101, &evil[2], false),
        thread(1, 200, &evil[3], true),
        thread(2, 200, "again", true),
        thread(0, 102, "idle", false),
    ];
    tables.threads[1].sum_exec_runtime = Some(u64::MAX);
    // The last sample of this thread is at 98 ms; it is alive at the end, at 100 ms.
    tables.threads[1].cpu_time_after_last_sample = 500_000;
    tables.threads[4].cpu_time_after_last_sample = 2 * MS;
    tables.modules = vec![
        module(ModuleKind::File, "libdemo.so", 0x40_0000),
        module(ModuleKind::Kernel, "[kernel]", 0),
        module(ModuleKind::Jit, "[JIT]", 0),
        module(ModuleKind::Anonymous, "[anonymous]", 0),
        module(ModuleKind::File, &evil[4], 0),
        module(ModuleKind::Vdso, "[vdso]", 0),
    ];
    tables.modules[4].problem = Some("permission denied".into());
    frames(&mut tables);
    names(&mut tables, &evil);
    stacks(&mut tables);
    let mut synthetic = Synthetic {
        tables,
        ..Synthetic::default()
    };
    samples(&mut synthetic);
    marks(&mut synthetic, &evil);
    faults::add(&mut synthetic, &evil);
    waits::add(&mut synthetic, &evil);
    synthetic
}

fn frames(tables: &mut Tables) {
    let process = ProcessId(0);
    let file = |module, svma| Location::Module {
        module: ModuleId(module),
        svma: Svma(svma),
    };
    let kernel = |offset| Location::Kernel {
        module: ModuleId(1),
        offset: KernelOffset(offset),
    };
    let places = [
        (file(0, 0x40_1000), true),
        (file(0, 0x40_1000), false),
        (file(0, 0x40_2222), true),
        (kernel(0x5000), false),
        (kernel(u64::MAX - 0xff), true),
        (
            Location::Jit {
                module: ModuleId(2),
                process,
                start: Avma(0x7f00_0000),
                offset: 0x33,
                code: 2,
            },
            false,
        ),
        (
            Location::Anonymous {
                module: ModuleId(3),
                process,
                avma: Avma(0x7fff_ffff_f123),
            },
            false,
        ),
        (
            Location::FileOffset {
                module: ModuleId(4),
                offset: FileOffset(0x999),
            },
            true,
        ),
        (
            Location::Unmapped {
                process,
                avma: Avma(u64::MAX),
            },
            false,
        ),
        (Location::Truncated(TruncationReason::CopyTooShort), false),
        // Below the base: no relative address exists.
        (file(0, 1), true),
        (file(5, 0x700), true),
    ];
    let frame = |(location, is_return_address)| Frame {
        location,
        is_return_address,
    };
    tables.frames = places.map(frame).to_vec();
}

fn names(tables: &mut Tables, evil: &[String]) {
    let inlined = [
        ("inner", Some("src/inner.h"), Some(3)),
        ("middle", None, None),
        (evil[5].as_str(), Some("src/main.c"), Some(u32::MAX)),
    ];
    let names = [
        named(&[("main", Some("src/main.c"), Some(10))], 0x40_0ff0, Some(0x100)),
        named(&inlined, 0x40_0ff0, Some(0x100)),
        named(&[("work", Some(evil[0].as_str()), Some(1))], 0x40_2200, None),
        named(&[("do_syscall_64", None, None)], 0x4ff0, Some(0x40)),
        named(&[("ext4_read [ext4]", None, None)], u64::MAX - 0x1ff, Some(u64::MAX)),
        named(&[("js: f", None, None)], 0, None),
    ];
    tables.names = names
        .into_iter()
        .zip(0..)
        .map(|(name, id)| (FrameId(id), name))
        .collect();
}

fn stacks(tables: &mut Tables) {
    let node = |parent: Option<u32>, frame| StackNode {
        parent: parent.map(StackId::new),
        frame: FrameId(frame),
    };
    tables.stacks = vec![
        node(None, 0),     // 0: main
        node(Some(0), 1),  // 1: main, inlined three deep
        node(Some(1), 2),  // 2
        node(Some(0), 3),  // 3: kernel leaf
        node(Some(2), 4),  // 4: kernel module leaf
        node(None, 9),     // 5: truncated alone
        node(Some(5), 5),  // 6: JIT
        node(Some(6), 6),  // 7: anonymous
        node(Some(0), 7),  // 8: unreadable file
        node(Some(8), 8),  // 9: unmapped
        node(Some(5), 10), // 10
        node(Some(10), 11),
    ];
}

fn samples(synthetic: &mut Synthetic) {
    let stacks = synthetic.tables.stacks.len() as u64;
    for i in 0..100u64 {
        let stack = (i % (stacks + 1) < stacks).then(|| StackId::new(u32::try_from(i % (stacks + 1)).unwrap()));
        synthetic.samples.push(SampleFact {
            time: Timestamp(at(i).0 + i * 7 % 1000),
            thread: ThreadId([0, 0, 1, 0, 2, 3][usize::try_from(i % 6).unwrap()]),
            stack,
            cpu_time: Duration::from_nanos(990_000 + i),
            in_kernel: matches!(stack.map(StackId::number), Some(3 | 4)) ^ (i % 10 == 0),
            weight: 1,
        });
    }
}

fn marks(synthetic: &mut Synthetic, evil: &[String]) {
    let mark = |ms, thread, kind| Mark {
        start: at(ms),
        end: None,
        thread: ThreadId(thread),
        stack: None,
        kind,
    };
    synthetic.marks = vec![
        mark(0, 0, MarkKind::ProcessStart),
        mark(
            1,
            0,
            MarkKind::Exec {
                path: "/usr/bin/demo".into(),
                command_line: evil.to_vec().into(),
            },
        ),
        Mark {
            stack: Some(StackId::new(1)),
            end: Some(at(44)),
            ..mark(4, 2, MarkKind::Program { text: evil[0].clone() })
        },
        Mark {
            end: Some(at(7)),
            ..mark(7, 2, MarkKind::Program { text: String::new() })
        },
        mark(50, 2, MarkKind::ProcessExit { status: 9 }),
    ];
}
