//! From the events of waits to facts, and the same facts again from a kept log.

use std::io::Cursor;
use std::time::Duration;

use profiler::addr::{KernelOffset, Timestamp};
use profiler::event::read::LogReader;
use profiler::event::{
    Call, CallPath, Event, FileId, FileName, KernelStack, OpenFile, StackAhead, Stacks, TaskNew, UserStack, Wait, Waker,
};
use profiler::fact::replay::log::LogSource;
use profiler::fact::wait::{Coverage, WaitReason};
use profiler::fact::{FactSink, FactSource, Location, Mark, SampleFact, Tables, WaitFact};
use profiler::unwind::NoBinaries;
use profiler_common::stack::{FLAG_USER_REGS, FLAG_WALK_COMPLETE};
use profiler_common::switch::{self as sw, state};
use profiler_common::unwind::WalkEnd;
use proptest::prelude::*;

use crate::harness::{at, locations, log};

mod locks;
mod quota;

const READ: u32 = 0;
const OPENAT: u32 = 257;
pub const FUTEX: u32 = 202;

#[derive(Default, Debug, PartialEq)]
struct Waits(Vec<WaitFact>);

impl FactSink for Waits {
    fn sample(&mut self, _: &Tables, _: &SampleFact) {}
    fn mark(&mut self, _: &Tables, _: &Mark) {}
    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        assert!(wait.thread.index() < tables.threads.len() && wait.count > 0 && wait.start <= wait.end);
        assert!(wait.queued <= wait.off && wait.longest <= wait.off && wait.off <= wait.end.since(wait.start));
        let file = wait.call.as_ref().and_then(|call| call.file);
        assert!(file.is_none_or(|file| file.index() < tables.files.len()));
        let waker = wait.waker.as_ref();
        let stacks = [wait.stack, waker.and_then(|waker| waker.stack)];
        assert!(stacks.iter().flatten().all(|stack| stack.index() < tables.stacks.len()));
        self.0.push(wait.clone());
    }
}

/// The facts of these events; a kept log gives the same.
pub fn facts(events: &[Event<'_>]) -> (Tables, Vec<WaitFact>) {
    let replay = |events: &[Event<'_>]| {
        let mut source = LogSource::new(LogReader::new(Cursor::new(log(events))).unwrap(), &NoBinaries);
        let mut facts = Waits::default();
        let tables = source.replay(&mut facts).unwrap();
        let resolved = source.collect_resolved(&tables);
        (tables, facts, resolved)
    };
    let (tables, facts, resolved) = replay(events);
    let kept = Event::Resolved(resolved.clone());
    let kept: Vec<Event<'_>> = events.iter().cloned().chain([kept]).collect();
    let (again, same, same_resolved) = replay(&kept);
    assert_eq!((&again, &same), (&tables, &facts));
    assert_eq!(same_resolved, resolved);
    (tables, facts.0)
}

pub fn born(pid: u32) -> Event<'static> {
    Event::TaskNew(TaskNew {
        at: at(100, pid, pid),
        ..TaskNew::default()
    })
}

fn kernel(key: u64, offsets: &[u64]) -> Event<'static> {
    let frames: Vec<KernelOffset> = offsets.iter().copied().map(KernelOffset).collect();
    let frames = frames.into();
    Event::KernelStack(KernelStack { key, frames })
}

fn user(key: u64, frames: &[u64]) -> Event<'static> {
    Event::UserStack(UserStack {
        key,
        end: WalkEnd::Complete as u8,
        frames: frames.to_vec().into(),
    })
}

/// The name of a kernel function; a return address is looked up one before.
fn symbol(offset: u64, name: &str) -> Event<'static> {
    Event::KernelSymbol {
        offset: KernelOffset(offset),
        start: KernelOffset(offset & !0xff),
        name: name.as_bytes().to_vec(),
    }
}

fn stacks(user: u64, kernel: u64) -> Stacks<'static> {
    Stacks {
        flags: if user == 0 {
            0
        } else {
            FLAG_USER_REGS | FLAG_WALK_COMPLETE
        },
        user,
        kernel,
        ..Stacks::default()
    }
}

/// Thread 7 did not run from `out` to `end`.
pub fn wait(out: u64, end: u64) -> Wait {
    Wait {
        at: at(end, 7, 7),
        out: Timestamp(out),
        end: Timestamp(end),
        off: end - out,
        longest: end - out,
        count: 1,
        state: state::INTERRUPTIBLE,
        ..Wait::default()
    }
}

fn only(events: &[Event<'_>]) -> (Tables, WaitFact) {
    let (tables, mut facts) = facts(events);
    assert_eq!(facts.len(), 1);
    (tables, facts.remove(0))
}

#[test]
fn a_preceding_stack_belongs_to_the_wait() {
    let events = [
        born(7),
        symbol(0x1010, "__schedule"),
        symbol(0x201f, "pipe_read"),
        kernel(1, &[0x1010, 0x2020]),
        user(2, &[0x10, 0x20]),
        kernel(3, &[0x1010]),
        Event::StackAhead(StackAhead {
            at: at(200, 7, 7),
            stacks: stacks(2, 1),
        }),
        // Another thread's, and one of another time.
        Event::StackAhead(StackAhead {
            at: at(200, 8, 8),
            stacks: stacks(0, 3),
        }),
        Event::StackAhead(StackAhead {
            at: at(201, 7, 7),
            stacks: stacks(0, 3),
        }),
        Event::Wait(Wait {
            stacks: stacks(0, 3),
            queued: 30,
            ..wait(200, 300)
        }),
    ];
    let (tables, fact) = only(&events);
    let places = locations(&tables, fact.stack);
    assert_eq!(places.len(), 4, "{places:?}");
    assert!(matches!(places[1], Location::Kernel { offset, .. } if *offset == KernelOffset(0x2020)));
    assert_eq!(fact.reason, WaitReason::Pipe);
    let ns = Duration::from_nanos;
    assert_eq!(
        (fact.off, fact.queued, fact.blocked(), fact.longest),
        (ns(100), ns(30), ns(70), ns(100))
    );
    assert_eq!((fact.coverage, fact.count, fact.in_fault), (Coverage::Full, 1, false));
    let ends = &tables.recording.wait_stack_ends;
    assert_eq!(ends.iter().map(|end| end.samples).sum::<u64>(), 1);
    assert_eq!((tables.recording.waits_seen, tables.recording.stack_ends.len()), (1, 0));
}

#[test]
fn a_wait_without_a_preceding_stack_has_its_own() {
    let events = [
        born(7),
        kernel(3, &[0x1010, 0x2020]),
        symbol(0x201f, "hrtimer_nanosleep"),
        Event::Wait(Wait {
            stacks: stacks(0, 3),
            flags: sw::WAIT_LIKE_EARLIER,
            count: 5,
            off: 40,
            longest: 20,
            ..wait(200, 300)
        }),
    ];
    let (tables, fact) = only(&events);
    assert_eq!((fact.reason, fact.coverage), (WaitReason::Sleep, Coverage::StackReused));
    assert_eq!((fact.off, fact.count), (Duration::from_nanos(40), 5));
    assert_eq!(locations(&tables, fact.stack).len(), 2);
    assert_eq!(tables.recording.waits_seen, 5);
}

#[test]
fn a_call_has_its_name_path_and_file() {
    let (file, pipe, fifo) = (
        FileId {
            inode: 5,
            ..FileId::default()
        },
        FileId {
            inode: 6,
            ..FileId::default()
        },
        FileId {
            inode: 7,
            ..FileId::default()
        },
    );
    let read = |out, file, mode| {
        let mut open = OpenFile::default();
        (open.file, open.mode) = (file, mode);
        Event::Wait(Wait {
            call: Some(Call {
                number: READ,
                arguments: [3, 0, 0],
                file: Some(open),
            }),
            ..wait(out, out + 50)
        })
    };
    let name = |file, path: &[u8]| {
        let (number, path) = (0, path.to_vec());
        Event::FileName(FileName { file, number, path })
    };
    let open = Call {
        number: OPENAT,
        arguments: [0; 3],
        file: None,
    };
    let events = [
        born(7),
        name(file, b"/var/lib/x.db"),
        name(fifo, b"/tmp/fifo"),
        Event::CallPath(CallPath {
            at: at(200, 7, 7),
            path: b"../a b".to_vec(),
        }),
        Event::Wait(Wait {
            call: Some(open),
            state: state::UNINTERRUPTIBLE,
            ..wait(200, 250)
        }),
        read(300, file, 0o100_644),
        read(400, pipe, 0o010_600),
        read(500, fifo, 0o010_600),
    ];
    let (tables, facts) = facts(&events);
    let actual: Vec<_> = facts
        .iter()
        .map(|fact| {
            let call = fact.call.as_ref().unwrap();
            let file = call.file.map(|file| &*tables.files[file.index()].path);
            (call.name.as_str(), call.path.as_deref(), file, fact.reason)
        })
        .collect();
    assert_eq!(
        actual,
        [
            ("openat", Some("../a b"), None, WaitReason::FileSystem),
            ("read", None, Some("/var/lib/x.db"), WaitReason::FileSystem),
            ("read", None, None, WaitReason::Pipe),
            ("read", None, Some("/tmp/fifo"), WaitReason::Pipe),
        ]
    );
}

#[test]
fn a_waker_has_its_own_stack_and_a_thread_if_recorded() {
    let waker = |time, pid, user, kernel| {
        Some(Waker {
            time: Timestamp(time),
            pid,
            tid: pid,
            user,
            kernel,
        })
    };
    let woken = |out, waker, flags| {
        let futex = Call {
            number: FUTEX,
            arguments: [0x1000, 128, 2],
            file: None,
        };
        let call = Some(futex);
        Event::Wait(Wait {
            waker,
            flags,
            call,
            ..wait(out, out + 50)
        })
    };
    let events = [
        born(7),
        born(8),
        kernel(1, &[0x1010, 0x2020]),
        user(2, &[0x30, 0x40]),
        woken(200, waker(240, 8, 2, 1), 0),
        woken(300, waker(340, 99, 2, 1), sw::WAIT_WAKER_UNSURE),
        woken(400, waker(440, 0, 0, 0), sw::WAIT_BY_INTERRUPT),
        // Its stack is missing from the log.
        woken(500, waker(540, 8, 77, 0), 0),
    ];
    let (tables, facts) = facts(&events);
    let wakers: Vec<_> = facts.iter().map(|fact| fact.waker.clone().unwrap()).collect();
    assert_eq!(
        wakers[0].thread.map(|thread| tables.threads[thread.index()].tid),
        Some(8)
    );
    assert_eq!(locations(&tables, wakers[0].stack).len(), 4);
    assert_eq!((wakers[0].time, wakers[0].by_interrupt), (Timestamp(240), Some(false)));
    assert_eq!((wakers[1].thread, wakers[1].by_interrupt), (None, None));
    assert_eq!(locations(&tables, wakers[1].stack).len(), 2, "the kernel's part only");
    assert_eq!(
        (wakers[2].stack, wakers[2].tid, wakers[2].by_interrupt),
        (None, 0, Some(true))
    );
    assert_eq!(wakers[3].stack, None);
    assert!(facts.iter().all(|fact| fact.reason == WaitReason::Lock));
    assert_eq!(tables.threads.len(), 2, "a waker is not recorded by waking");
}

#[test]
fn missed_parts_are_marked() {
    let with = |out, flags, state| {
        Event::Wait(Wait {
            flags,
            state,
            ..wait(out, out + 50)
        })
    };
    let events = [
        born(7),
        with(200, sw::WAIT_UNSEEN_START, 0),
        with(300, sw::WAIT_UNFINISHED, state::INTERRUPTIBLE),
        with(400, sw::WAIT_BIRTH, 0),
        with(500, sw::WAIT_PREEMPTED, 0),
        with(600, 0, state::STOPPED),
    ];
    let (_, found) = facts(&events);
    let actual: Vec<_> = found.iter().map(|fact| (fact.coverage, fact.reason)).collect();
    assert_eq!(
        actual,
        [
            (Coverage::StartMissed, WaitReason::Unknown),
            (Coverage::EndMissed, WaitReason::Kernel),
            (Coverage::Full, WaitReason::RunQueue),
            (Coverage::Full, WaitReason::RunQueue),
            (Coverage::Full, WaitReason::Stopped),
        ]
    );
}

/// The command waits for the recorder, and its lifetime begins when it is released.
#[test]
fn waiting_for_the_recorder_is_excluded() {
    let command = Event::TaskNew(TaskNew {
        at: at(100, 7, 7),
        existed: true,
        ..TaskNew::default()
    });
    let unseen = Wait {
        flags: sw::WAIT_UNSEEN_START,
        ..wait(200, 900)
    };
    let (tables, actual) = facts(&[command, Event::Wait(unseen), Event::Wait(wait(1000, 1100))]);
    assert_eq!(actual.iter().map(|wait| wait.start.0).collect::<Vec<_>>(), [1000]);
    assert_eq!(tables.threads[0].start, Timestamp(900));
    assert_eq!(tables.recording.waits_seen, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn hostile_events_never_panic(
        steps in prop::collection::vec((0..6u8, 0..400u64, any::<[u64; 4]>(), 1..=u32::MAX, any::<u32>(), 0..6u64), 0..30),
    ) {
        let mut events = vec![born(7), kernel(1, &[1, 2, 3]), user(2, &[4, 5])];
        for (kind, time, [a, b, c, d], count, flags, key) in steps {
            let at = at(time, 7 + flags % 2, 7 + flags % 3);
            let file = FileId { inode: a % 3, ..FileId::default() };
            let open = OpenFile { file, mode: count, magic: 0, name: d % 4 };
            events.push(match kind {
                0 => Event::StackAhead(StackAhead { at, stacks: stacks(key, key / 2) }),
                1 => Event::CallPath(CallPath { at, path: vec![b'x'; (a % 3000) as usize] }),
                2 => Event::FileName(FileName { file, number: d % 4, path: b.to_le_bytes().to_vec() }),
                _ => Event::Wait(Wait {
                    at, cpu: 0, out: Timestamp(if kind == 3 { a } else { time / 2 }), end: Timestamp(b), off: c, queued: d, longest: a,
                    count, state: flags >> 3, flags,
                    call: (kind == 4).then_some(Call { number: flags % 500, arguments: [a, b, c], file: Some(open) }),
                    waker: (key > 2).then(|| Waker { time: Timestamp(d), pid: 7, tid: 7 + flags % 3, user: key, kernel: key - 2 }),
                    stacks: stacks(key, key / 3), ..locks::any(key, a, flags)
                }),
            });
        }
        facts(&events);
    }
}
