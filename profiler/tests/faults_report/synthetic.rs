//! A synthetic recording of faults in which every sum is known.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use fixtures::rows::{self, START, module, thread};
use profiler::addr::{Avma, FileOffset, Svma, Timestamp};
use profiler::event::{FileId, HookStatus};
use profiler::fact::FaultAccount;
use profiler::fact::fault::{Access, Failure, FaultClass, FaultWaits, FilePlace, MappedFile};
use profiler::fact::fault::{FaultFact, FileSection, FileSymbol, MappedFileId, OtherFaults};
use profiler::fact::{
    FactSink, FactSource, Frame, FrameId, FrameName, Location, Mark, MarkKind, ModuleId, ModuleKind, PagesReadFact,
    Process, ProcessId, Recording, SourceFrame, StackId, StackNode, Tables, ThreadId, TruncationReason,
};

/// Tables, faults and marks, as a source provides them.
#[derive(Debug, Clone, Default)]
pub struct Made {
    pub tables: Tables,
    pub faults: Vec<FaultFact>,
    pub marks: Vec<Mark>,
    pub reads: Vec<PagesReadFact>,
}

impl FactSource for Made {
    fn replay(&mut self, sink: &mut dyn FactSink) -> anyhow::Result<Tables> {
        self.marks.iter().for_each(|mark| sink.mark(&self.tables, mark));
        self.reads.iter().for_each(|read| sink.pages_read(&self.tables, read));
        self.faults.iter().for_each(|fault| sink.fault(&self.tables, fault));
        Ok(self.tables.clone())
    }
}

pub fn at(us: u64) -> Timestamp {
    Timestamp(START + us * 1000)
}

fn process(pid: u32, name: &str, parent: Option<u32>) -> Process {
    Process {
        path: format!("/usr/bin/{name}"),
        command_line: vec![name.into()].into(),
        parent: parent.map(ProcessId),
        ..rows::process(pid, name)
    }
}

fn file(path: &str, inode: u64) -> MappedFile {
    let section = |name: &str, offset, size| FileSection {
        name: name.into(),
        offset,
        size,
        svma: offset,
    };
    MappedFile {
        id: FileId {
            major: 8,
            minor: 1,
            inode,
            generation: 0,
        },
        path: path.into(),
        deleted: false,
        build_id: vec![0xab, 0xcd],
        sections: vec![section(".text", 0x1000, 0xf000), section(".data", 0x1_0000, 0x1_0000)],
        symbols: vec![FileSymbol {
            name: "table".into(),
            offset: 0x1_0000,
            size: 0x1000,
        }],
        ..MappedFile::default()
    }
}

/// Adds a chain of frames, outermost first, and returns the innermost stack.
pub fn stack(tables: &mut Tables, frames: &[(&str, Option<&[&str]>)]) -> StackId {
    let mut parent = None;
    for (module_name, names) in frames {
        let location = if *module_name == "[truncated]" {
            Location::Truncated(TruncationReason::NoUnwindInfo)
        } else {
            let known = tables.modules.iter().position(|module| module.name == *module_name);
            let id = known.unwrap_or_else(|| {
                tables.modules.push(module(ModuleKind::File, module_name));
                tables.modules.len() - 1
            });
            let module = ModuleId(u32::try_from(id).unwrap());
            let number = tables.frames.len() as u64 * 16;
            if *module_name == "[kernel]" {
                let offset = profiler::addr::KernelOffset(number);
                Location::Kernel { module, offset }
            } else {
                Location::Module {
                    module,
                    svma: Svma(number),
                }
            }
        };
        let frame = FrameId(u32::try_from(tables.frames.len()).unwrap());
        tables.frames.push(Frame {
            location,
            is_return_address: false,
        });
        if let Some(names) = names {
            let chain = names.iter().map(|name| SourceFrame {
                function: (*name).into(),
                ..SourceFrame::default()
            });
            let name = FrameName {
                symbol: (*names.last().unwrap()).into(),
                inline_chain: chain.collect(),
                ..FrameName::default()
            };
            tables.names.insert(frame, name);
        }
        let id = StackId::new(u32::try_from(tables.stacks.len()).unwrap());
        tables.stacks.push(StackNode { parent, frame });
        parent = Some(id);
    }
    parent.unwrap()
}

/// A fault of which only the time is known.
pub fn fault(us: u64) -> FaultFact {
    FaultFact {
        start: at(us),
        latency: Some(Duration::from_micros(10)),
        thread: ThreadId(0),
        stack: None,
        address: Avma(0x7f00_0000_0000 + us),
        access: Access::Read,
        class: FaultClass::Anonymous,
        place: None,
        major: false,
        in_kernel: false,
        remote: false,
        failed: None,
        waits: FaultWaits {
            disk: Some(Duration::ZERO),
            other_read: Some(Duration::ZERO),
            ..FaultWaits::default()
        },
        retries: Some(0),
        mapped: None,
        pages_read: 0,
        read_around_off: false,
        others: OtherFaults::default(),
    }
}

/// A page of a file.
#[expect(clippy::unnecessary_wraps, reason = "it has the type of the fact's field")]
pub fn place(file: u32, page: u64) -> Option<FilePlace> {
    Some(FilePlace {
        file: MappedFileId(file),
        offset: FileOffset(page * 4096),
        byte: FileOffset(page * 4096 + 8),
    })
}

fn recording() -> Recording {
    Recording {
        ngmi_version: "0.1.0".into(),
        command: vec!["demo".into(), "--all".into()],
        scope: "command".into(),
        start: at(0),
        end: at(2_000_000),
        hooks: vec![HookStatus {
            noun: "fault".into(),
            hook: "fentry/fexit handle_mm_fault".into(),
            refused: None,
            remedy: None,
        }],
        ..Recording::default()
    }
}

/// Two processes, three threads, two files and three stacks, but no faults.
pub fn empty() -> Made {
    let mut tables = Tables {
        recording: recording(),
        ..Tables::default()
    };
    tables.processes = vec![process(100, "demo", None), process(200, "child", Some(0))];
    tables.threads = vec![
        thread(0, 100, "demo"),
        thread(0, 101, "worker"),
        thread(1, 200, "child"),
    ];
    tables.files = vec![file("/usr/lib/libdemo.so", 7), file("/usr/share/data, \"1\".bin", 8)];
    // 2: main → outer (with `inlined` inlined into it)
    stack(
        &mut tables,
        &[
            ("demo", Some(&["_start"])),
            ("demo", Some(&["main"])),
            ("libdemo.so", Some(&["inlined", "outer"])),
        ],
    );
    // 7: main → recurse → recurse → memcpy, unnamed, then the kernel
    stack(
        &mut tables,
        &[
            ("demo", Some(&["main"])),
            ("libdemo.so", Some(&["recurse"])),
            ("libdemo.so", Some(&["recurse"])),
            ("libc.so.6", None),
            ("[kernel]", Some(&["copy_to_user"])),
        ],
    );
    // 9: an unnamed frame, then truncated
    stack(&mut tables, &[("[truncated]", None), ("other.so", None)]);
    Made {
        tables,
        ..Made::default()
    }
}

/// The innermost stacks of [`empty`].
pub const STACKS: [Option<StackId>; 4] = [
    Some(StackId::new(2)),
    Some(StackId::new(7)),
    Some(StackId::new(9)),
    None,
];

/// `n` faults that differ in every field, by rules that a test can recompute with remainders. Fault
/// i starts at 3 i µs and takes i % 1000 µs.
pub fn many(n: u64) -> Made {
    let mut made = empty();
    made.faults = (0..n).map(numbered).collect();
    // Sources provide them in this order.
    made.faults
        .sort_by_key(|fault| fault.start.0 + u64::try_from(fault.time().as_nanos()).unwrap());
    made
}

/// Fault i of [`many`].
pub fn numbered(i: u64) -> FaultFact {
    let us = Duration::from_micros;
    let latency = i % 1000;
    let index = |modulus: u64| usize::try_from(i % modulus).unwrap();
    let class = FaultClass::ALL[index(12)];
    FaultFact {
        latency: (i % 50 != 49).then(|| us(latency)),
        thread: ThreadId(u32::try_from(i % 3).unwrap()),
        stack: STACKS[index(4)],
        access: [Access::Read, Access::Write, Access::Execute, Access::Unknown][index(4)],
        class,
        place: match i % 5 {
            0 | 1 => place(0, i % 32),
            2 => place(1, i % 100),
            _ => None,
        },
        major: i.is_multiple_of(7),
        in_kernel: i % 4 == 1,
        failed: (class == FaultClass::Error).then_some(Failure::Bus),
        waits: FaultWaits {
            lock: Some(us(latency / 10)),
            disk: Some(us(if i.is_multiple_of(11) { latency / 2 } else { 0 })),
            other_read: Some(us(0)),
            reclaim: None,
            blocked: Some(us(latency / 5)),
            preempted: Some(us(0)),
        },
        mapped: i.is_multiple_of(5).then(|| "-4+16".parse().unwrap()),
        read_around_off: i.is_multiple_of(500),
        ..fault(3 * i)
    }
}

/// Three accounts: one that adds up, one with faults that are not visible, and one of a thread that
/// was not traced.
pub fn with_accounts(mut made: Made, not_visible: u64) -> Made {
    let account = |seen, before| FaultAccount {
        seen,
        lost: 2,
        filtered: 3,
        failed: 1,
        before,
    };
    for (index, minor, major, account) in [
        (0, Some(90), Some(25), account(100, Some(10))),
        (1, Some(55 + not_visible), Some(0), account(50, Some(0))),
        (2, Some(7), Some(0), account(0, None)),
    ] {
        let thread = &mut made.tables.threads[index];
        thread.minor_faults = minor;
        thread.major_faults = major;
        thread.faults = Some(account);
    }
    made
}

/// A mark on thread 0.
pub fn mark(us: u64, kind: MarkKind) -> Mark {
    Mark {
        start: at(us),
        end: None,
        thread: ThreadId(0),
        stack: None,
        kind,
    }
}
