//! A synthetic recording of waits in which every sum is known.

use std::time::Duration;

use fixtures::rows::{START, module, process, thread};
use profiler::addr::{Avma, KernelOffset, Svma, Timestamp};
use profiler::event::LockId;
use profiler::fact::wait::{Coverage, Futex, WaitCall, WakerFact};
use profiler::fact::{
    Cause, Effect, EffectKind, FactSink, Frame, FrameId, FrameName, HolderRef, KernelLock, Location, LockKind,
    MappedFile, MappedFileId, ModuleId, ModuleKind, Reason, SourceFrame, StackId, StackNode, Tables, ThreadId,
    WaitFact, WaitReason,
};
use profiler::report::waits::Facts;

/// A name that is hard on terminals and tables.
pub const EVIL: &str = "a,\"b\"\n\u{1b}[31m;c";

pub fn at(us: u64) -> Timestamp {
    Timestamp(START + us * 1000)
}

/// Adds frames (module number and name), outermost first, and returns the innermost stack.
fn stack(tables: &mut Tables, frames: &[(u32, &str)]) -> StackId {
    let mut parent = None;
    for (module, name) in frames {
        let number = u32::try_from(tables.frames.len()).unwrap();
        let module = ModuleId(*module);
        let location = match module {
            ModuleId(0) => Location::Kernel {
                module,
                offset: KernelOffset(u64::from(number)),
            },
            _ => Location::Module {
                module,
                svma: Svma(u64::from(number)),
            },
        };
        tables.frames.push(Frame {
            location,
            is_return_address: false,
        });
        let source = SourceFrame {
            function: (*name).into(),
            ..SourceFrame::default()
        };
        let name = FrameName {
            symbol: (*name).into(),
            inline_chain: vec![source],
            ..FrameName::default()
        };
        tables.names.insert(FrameId(number), name);
        let id = StackId::new(u32::try_from(tables.stacks.len()).unwrap());
        tables.stacks.push(StackNode {
            parent,
            frame: FrameId(number),
        });
        parent = Some(id);
    }
    parent.unwrap()
}

/// Two processes, three threads, a file and four stacks.
pub fn tables() -> (Tables, Vec<StackId>) {
    let mut tables = Tables::default();
    tables.recording.command = vec!["demo".into()];
    tables.recording.scope = "command".into();
    tables.recording.start = at(0);
    tables.recording.end = at(1_000_000);
    tables.processes = vec![process(100, "demo"), process(200, EVIL)];
    tables.threads = vec![thread(0, 100, "demo"), thread(0, 101, "worker"), thread(1, 200, EVIL)];
    tables.modules = vec![
        module(ModuleKind::Kernel, "[kernel]"),
        module(ModuleKind::File, "demo"),
        module(ModuleKind::File, "libc.so.6"),
    ];
    tables.files = vec![MappedFile {
        path: "/var/lib/demo.db".into(),
        ..MappedFile::default()
    }];
    let stacks = vec![
        stack(&mut tables, &[(1, "main"), (1, "load"), (2, "read"), (0, "vfs_read")]),
        // A runtime's wrapper and the C library are attributed to their caller.
        stack(
            &mut tables,
            &[
                (1, "main"),
                (1, "work"),
                (1, "std::sys::futex::futex_wait"),
                (2, "syscall"),
                (0, "futex_wait"),
            ],
        ),
        // The value says condition, the name says lock.
        stack(
            &mut tables,
            &[(1, "main"), (1, EVIL), (2, "pthread_mutex_lock"), (0, "futex_wait")],
        ),
        // Only the C library.
        stack(&mut tables, &[(2, "start_thread"), (2, "pause")]),
    ];
    (tables, stacks)
}

/// Wait i begins at 3 i µs and takes i % 1000 µs, a tenth of it queued.
pub fn numbered(i: u64, stacks: &[StackId]) -> WaitFact {
    let us = Duration::from_micros;
    let off = i % 1000;
    let index = |modulus: u64| usize::try_from(i % modulus).unwrap();
    let waker = |thread, by_interrupt| WakerFact {
        time: at(3 * i + off),
        pid: 100,
        tid: 101,
        thread,
        stack: Some(stacks[index(4)]),
        by_interrupt,
    };
    WaitFact {
        start: at(3 * i),
        end: at(3 * i + off),
        thread: ThreadId(u32::try_from(i % 3).unwrap()),
        stack: (i % 5 != 4).then(|| stacks[index(4)]),
        off: us(off),
        queued: us(off) / 10,
        longest: us(off),
        count: 1 + u32::try_from(i % 4).unwrap(),
        reason: WaitReason::ALL[index(14)],
        call: i.is_multiple_of(2).then(|| WaitCall {
            number: u32::try_from(i % 3).unwrap(),
            name: ["read", "write", "open"][index(3)].into(),
            file: i.is_multiple_of(6).then_some(MappedFileId(0)),
            path: (i % 6 == 2).then(|| EVIL.to_owned()),
        }),
        waker: match i % 4 {
            0 => None,
            1 => Some(waker(Some(ThreadId(1)), Some(false))),
            2 => Some(waker(None, Some(true))),
            _ => Some(waker(None, None)),
        },
        coverage: [
            Coverage::Full,
            Coverage::StackReused,
            Coverage::StartMissed,
            Coverage::EndMissed,
        ][index(4)],
        in_fault: i.is_multiple_of(9),
        cpu: None,
        futex: i.is_multiple_of(8).then_some(Futex {
            address: Avma(0x40 + i),
            place: i.is_multiple_of(16).then_some((MappedFileId(0), i)),
        }),
        lock: i.is_multiple_of(10).then(|| {
            Box::new(KernelLock {
                id: LockId::Number(i % 3),
                kind: LockKind::Rwsem,
                is_read: true,
                is_own_mmap: false,
                name: Some(EVIL.into()),
                holder: None,
            })
        }),
        priority: Some(120),
    }
}

/// `n` waits in reverse order, because sources report waits when they end.
pub fn facts(n: u64) -> (Tables, Facts) {
    let (tables, stacks) = tables();
    let mut facts = Facts::default();
    for i in (0..n).rev() {
        facts.wait(&tables, &numbered(i, &stacks));
    }
    let effect = |i: u64| Effect {
        kind: EffectKind::Wait,
        thread: ThreadId(u32::try_from(i % 3).unwrap()),
        start: at(3 * i),
    };
    let holder = HolderRef {
        effect: effect(1),
        end: at(4),
    };
    facts.joined(
        &tables,
        &Cause {
            effect: effect(5),
            reason: Reason::Holder(holder),
        },
    );
    (tables, facts)
}
