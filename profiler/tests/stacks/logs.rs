//! Facts from logs with known contents.

use std::io::Cursor;

use profiler::addr::{Avma, KernelOffset, Timestamp};
use profiler::event::read::LogReader;
use profiler::event::{
    Attachment, AttachmentKind, End, Event, KernelStack, Mapping, Sample, Stacks, TaskExec, TaskExit, TaskNew,
    UserStack,
};
use profiler::fact::replay::log::LogSource;
use profiler::fact::{FactSource, Location, MarkKind, ModuleId, ModuleKind, ProcessId, Tables, TruncationReason};
use profiler::unwind::NoBinaries;
use profiler_common::Loss;
use profiler_common::stack::{FLAG_IN_KERNEL, FLAG_USER_REGS, FLAG_WALK_COMPLETE};
use profiler_common::unwind::WalkEnd;

use super::harness::{Facts, at, locations, log, replay};

fn marker_file(text: &str) -> Event<'static> {
    let (path, bytes) = (b"/tmp/marker-10.txt".to_vec(), text.as_bytes().to_vec());
    Event::Attachment(Attachment {
        kind: AttachmentKind::Markers,
        pid: 10,
        path,
        bytes,
    })
}

/// One process, drained out of order, with all preamble chunks.
fn story() -> Vec<Event<'static>> {
    let stack = |key, offsets: &[u64]| {
        let frames: Vec<KernelOffset> = offsets.iter().copied().map(KernelOffset).collect();
        Event::KernelStack(KernelStack {
            key,
            frames: frames.into(),
        })
    };
    let sample = |time, flags, kernel| {
        Event::Sample(Sample {
            at: at(time, 10, 10),
            cpu_time: 1000,
            stacks: Stacks {
                flags,
                kernel,
                ..Stacks::default()
            },
            ..Sample::default()
        })
    };
    vec![
        stack(7, &[0x1010, 0x2020]),
        sample(300, FLAG_IN_KERNEL, 7),
        Event::TaskNew(TaskNew {
            at: at(110, 10, 10),
            parent: (1, 1),
            name: b"ngmi".to_vec(),
            ..TaskNew::default()
        }),
        Event::TaskExec(TaskExec {
            at: at(120, 10, 10),
            old_tid: 10,
            name: b"prog".to_vec(),
            path: b"/usr/bin/prog".to_vec(),
            command_line: b"prog\0-v\0".to_vec(),
            ..TaskExec::default()
        }),
        Event::Watermark(Timestamp(250)),
        stack(8, &[0x1010]),
        sample(400, FLAG_IN_KERNEL | FLAG_USER_REGS, 8),
        Event::TaskExit(TaskExit {
            at: at(500, 10, 10),
            exit_code: 256,
            cpu_time: 30,
            sum_exec_runtime: 2030,
            minor_faults: 4,
            major_faults: 1,
            faults: None,
        }),
        Event::Loss {
            loss: Loss::SampleRingFull as u32,
            count: 3,
        },
        Event::Loss {
            loss: Loss::SampleRingFull as u32,
            count: 5,
        },
        Event::KernelSymbol {
            offset: KernelOffset(0x1010),
            start: KernelOffset(0x1000),
            name: b"do_work".to_vec(),
        },
        Event::KernelSymbol {
            offset: KernelOffset(0x2020),
            start: KernelOffset(0x2020),
            name: b"wrong".to_vec(),
        },
        Event::KernelSymbol {
            offset: KernelOffset(0x201f),
            start: KernelOffset(0x2000),
            name: b"caller".to_vec(),
        },
        marker_file("350 360 later\n130 130 first\ngarbage\n"),
        Event::End(End {
            time: Timestamp(600),
            reason: "command exited".into(),
            status: Some(256),
        }),
    ]
}

#[test]
fn a_recording_is_replayed_in_order() {
    let (tables, facts, _) = replay(&log(&story()), &NoBinaries);
    let recording = &tables.recording;
    assert_eq!((recording.start, recording.end), (Timestamp(100), Timestamp(600)));
    assert_eq!(
        (recording.end_reason.as_deref(), recording.command_status),
        (Some("command exited"), Some(256))
    );
    assert_eq!(
        (
            recording.samples_seen,
            recording.cpu_time_seen,
            recording.sample_thinning
        ),
        (2, 2030, 1)
    );
    assert_eq!(recording.losses, [("sample ring full".to_owned(), 5)]);
    assert_eq!(recording.notes.len(), 1);
    assert!(
        recording.notes[0].contains("not markers (start, end in ns, text): 1"),
        "{:?}",
        recording.notes
    );

    let marks: Vec<(u64, &MarkKind)> = facts.marks.iter().map(|mark| (mark.start.0, &mark.kind)).collect();
    let program = |text: &str| MarkKind::Program { text: text.to_owned() };
    let exec = MarkKind::Exec {
        path: "/usr/bin/prog".into(),
        command_line: vec!["prog".into(), "-v".into()].into(),
    };
    assert_eq!(
        marks,
        [
            (110, &MarkKind::ProcessStart),
            (120, &exec),
            (130, &program("first")),
            (350, &program("later")),
            (500, &MarkKind::ProcessExit { status: 256 }),
        ]
    );
    let times: Vec<u64> = facts.samples.iter().map(|sample| sample.time.0).collect();
    assert_eq!(times, [300, 400]);
    let thread = &tables.threads[0];
    assert_eq!(
        (
            thread.name.as_str(),
            thread.cpu_time_after_last_sample,
            thread.major_faults
        ),
        ("prog", 30, Some(1))
    );
    assert_eq!((thread.start, thread.end), (Timestamp(110), Some(Timestamp(500))));
}

#[test]
fn kernel_frames_are_named_and_user_stacks_have_an_end_reason() {
    let (tables, facts, _) = replay(&log(&story()), &NoBinaries);
    let kernel = |offset| Location::Kernel {
        module: ModuleId(0),
        offset: KernelOffset(offset),
    };
    assert_eq!(
        locations(&tables, facts.samples[0].stack),
        [&kernel(0x1010), &kernel(0x2020)]
    );
    let truncated = Location::Truncated(TruncationReason::NotCaptured);
    // Registers, but no stack.
    let user = Location::Unmapped {
        process: ProcessId(0),
        avma: Avma(0),
    };
    assert_eq!(
        locations(&tables, facts.samples[1].stack),
        [&kernel(0x1010), &user, &truncated]
    );
    assert_eq!(tables.modules[0].kind, ModuleKind::Kernel);
    let mut names: Vec<&str> = tables.names.values().map(|name| &*name.symbol).collect();
    names.sort_unstable();
    // The return address at a function's very start is behind a call in the function before.
    assert_eq!(names, ["caller", "do_work"]);
    // The kernel-only stack does not count as a user stack.
    assert_eq!(
        tables.recording.stack_ends.iter().map(|end| end.samples).sum::<u64>(),
        1
    );
}

#[test]
fn damaged_and_late_events_are_losses() {
    let mut bytes = log(&story()[..2]);
    let damaged = bytes.len() - 10;
    bytes[damaged] ^= 1;
    let (tables, facts, _) = replay(&bytes, &NoBinaries);
    assert_eq!(tables.recording.losses, [("log chunk damaged".to_owned(), 1)]);
    assert_eq!((facts.samples.len(), tables.recording.end_reason), (0, None));
}

#[test]
fn a_damaged_header_leaves_the_rest() {
    let mut bytes = log(&story());
    bytes[60] ^= 1;
    let (tables, facts, _) = replay(&bytes, &NoBinaries);
    assert_eq!(facts.samples.len(), 2);
    assert!(tables.recording.notes.iter().any(|note| note.contains("header")));
}

/// Two processes that run nameless code, at different addresses.
fn unnamed_code() -> Vec<Event<'static>> {
    let of_process = |pid: u32, start: u64| {
        let key = u64::from(pid);
        [
            Event::TaskNew(TaskNew {
                at: at(110, pid, pid),
                parent: (1, 1),
                name: b"prog".to_vec(),
                ..TaskNew::default()
            }),
            Event::Mapping(Mapping {
                at: at(120, pid, pid),
                start: Avma(start),
                len: 0x4000,
                protection: 5,
                flags: 2,
                path: b"//anon".to_vec(),
                ..Mapping::default()
            }),
            Event::UserStack(UserStack {
                key,
                end: WalkEnd::Complete as u8,
                frames: vec![start + 0x10, start + 0x2020].into(),
            }),
            Event::Sample(Sample {
                at: at(300, pid, pid),
                cpu_time: 1000,
                stacks: Stacks {
                    flags: FLAG_USER_REGS | FLAG_WALK_COMPLETE,
                    user: key,
                    ..Stacks::default()
                },
                ..Sample::default()
            }),
        ]
    };
    [of_process(10, 0x7f00_0000), of_process(11, 0x7e00_0000)].concat()
}

#[test]
fn reports_merge_unnamed_code() {
    let events = unnamed_code();
    let names = |tables: &Tables, facts: &Facts, sample: usize| {
        let stack = locations(tables, facts.samples[sample].stack).into_iter();
        stack.map(|place| tables.address_name(place)).collect::<Vec<_>>()
    };
    let (tables, facts, resolved) = replay(&log(&events), &NoBinaries);
    assert_eq!(
        names(&tables, &facts, 0),
        ["0x7f000000 [anonymous]", "0x7f002000 [anonymous]"]
    );
    assert_ne!(facts.samples[0].stack, facts.samples[1].stack);

    let kept = [&events[..], &[Event::Resolved(resolved)]].concat();
    for events in [events, kept] {
        let log = log(&events);
        let mut source = LogSource::new(LogReader::new(Cursor::new(&log[..])).unwrap(), &NoBinaries);
        source.merge_anonymous();
        let mut facts = Facts::default();
        let tables = source.replay(&mut facts).unwrap();
        assert_eq!(names(&tables, &facts, 0), ["[anonymous]", "[anonymous]"]);
        assert_eq!(facts.samples[0].stack, facts.samples[1].stack);
        assert_eq!(tables.stacks.len(), 2);
    }
}
