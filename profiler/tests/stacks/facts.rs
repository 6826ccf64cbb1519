//! From logs of real stacks to facts.

use std::io::Cursor;

use profiler::addr::KernelOffset;
use profiler::event::write::LogWriter;
use profiler::event::{Attachment, AttachmentKind, Event, FileId, KernelStack, Mapping, PROT_EXEC, TaskNew};
use profiler::fact::{Location, StackEnds, StackId, TruncationReason};
use profiler::unwind::{Binaries, NoBinaries};

use super::harness::{at, locations, log, replay};
use super::program::{Flavour, run};

/// A real stack, code named by a compiler, and the same without the binaries.
#[test]
fn a_complete_log_needs_no_binaries() {
    let Some(dump) = run("made", Flavour(&["-O2", "-fomit-frame-pointer"])) else {
        return;
    };
    let mut events: Vec<Event<'_>> = vec![Event::TaskNew(TaskNew {
        at: at(1, 1, 1),
        ..TaskNew::default()
    })];
    events.extend(dump.maps.iter().cloned().map(Event::Mapping));
    for time in [200, 210, 220] {
        let mut sample = dump.sample(0);
        sample.at = at(time, 1, 1);
        sample.stacks.kernel = time;
        events.push(Event::KernelStack(KernelStack {
            key: time,
            frames: vec![KernelOffset(time)].into(),
        }));
        events.push(Event::Sample(sample));
    }
    let made = dump
        .maps
        .iter()
        .find(|mapping| mapping.file.inode == 0 && mapping.len == 4096 && is_code(mapping))
        .unwrap();
    let map = format!("{:x} 1000 wasm-function[7]\n", made.start.0);
    let (path, bytes) = (b"/tmp/perf-1.map".to_vec(), map.into_bytes());
    events.push(Event::Attachment(Attachment {
        kind: AttachmentKind::PerfMap,
        pid: 1,
        path,
        bytes,
    }));
    let bytes = log(&events);

    let (tables, facts, resolved) = replay(&bytes, &dump.binaries);
    assert_eq!(facts.samples.len(), 3);
    let complete = StackEnds {
        module: "stacks".into(),
        reason: None,
        samples: 3,
    };
    assert_eq!(tables.recording.stack_ends, [complete]);
    assert!(tables.names.values().any(|name| &*name.symbol == "wasm-function[7]"));
    assert!(
        tables
            .modules
            .iter()
            .any(|module| module.name == "libc.so.6" && !module.build_id.is_empty())
    );

    let mut writer = LogWriter::append(Cursor::new(bytes)).unwrap();
    writer.event(&Event::Resolved(resolved.clone())).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    let (again, same_facts, same_resolved) = replay(&bytes, &NoBinaries);
    assert_eq!(again, tables);
    assert_eq!(same_facts, facts);
    assert_eq!(same_resolved, resolved);
}

fn is_code(mapping: &Mapping) -> bool {
    mapping.protection & PROT_EXEC != 0 && mapping.path.is_empty()
}

#[test]
fn a_missing_file_leaves_offsets_or_logged_names() {
    let Some(dump) = run("recurse", Flavour(&["-O2"])) else {
        return;
    };
    let mut events: Vec<Event<'_>> = dump.maps.iter().cloned().map(Event::Mapping).collect();
    let mut sample = dump.sample(0);
    sample.at = at(200, 1, 1);
    events.push(Event::Sample(sample));
    let (tables, facts, _) = replay(&log(&events), &NoBinaries);
    assert!(matches!(
        locations(&tables, facts.samples[0].stack)[0],
        Location::FileOffset { .. }
    ));
    assert!(tables.modules[0].problem.is_some());
    let unreadable = Some(TruncationReason::ModuleUnreadable);
    assert_eq!(tables.recording.stack_ends[0].reason, unreadable);

    let program = dump
        .maps
        .iter()
        .find(|mapping| mapping.path.ends_with(b"/stacks"))
        .unwrap();
    let elf = dump
        .binaries
        .elf(FileId::default(), &String::from_utf8_lossy(&program.path), &[])
        .unwrap();
    events.push(Event::Module(profiler::event::Module {
        file: program.file,
        path: String::from_utf8_lossy(&program.path).into_owned(),
        build_id: elf.build_id().to_vec(),
        segments: elf
            .segments()
            .iter()
            .map(|one| profiler::event::Segment {
                offset: one.file_offset,
                svma: one.svma,
                file_size: one.file_size,
            })
            .collect(),
        entry: elf.entry(),
        problem: None,
    }));
    let (tables, facts, _) = replay(&log(&events), &NoBinaries);
    let leaf = locations(&tables, facts.samples[0].stack)[0].clone();
    assert!(matches!(leaf, Location::Module { .. }), "{leaf:?}");
    assert_eq!(tables.modules[0].build_id, elf.build_id());
}

/// A jitdump with one byte of code at `address` for each name, loaded at its time.
fn jitdump(address: u64, loads: &[(u64, &str)]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let numbers = |numbers: &[u64]| {
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut file = [b"DTiJ".to_vec(), words(&[1, 40, 62, 0, 1]), numbers(&[0, 0])].concat();
    for (index, (time, name)) in (0u64..).zip(loads) {
        let size = u32::try_from(56 + name.len() + 2).unwrap();
        file.extend(words(&[0, size]));
        file.extend(numbers(&[*time]));
        file.extend(words(&[1, 1]));
        file.extend(numbers(&[address, address, 1, index]));
        file.extend(name.bytes().chain([0, 0xc3]));
    }
    file
}

/// The same address, and another function by the time of the next sample.
#[test]
fn code_that_replaced_other_code_has_its_own_name() {
    let address = 0x7f00_0000_1000;
    let mapping = Mapping {
        at: at(100, 1, 1),
        start: profiler::addr::Avma(address),
        len: 4096,
        protection: 7,
        path: b"//anon".to_vec(),
        ..Mapping::default()
    };
    let mut events = vec![Event::Mapping(mapping)];
    for time in [150, 250, 260, 350] {
        let mut sample = profiler::event::Sample {
            at: at(time, 1, 1),
            ..profiler::event::Sample::default()
        };
        sample.stacks.flags = profiler_common::stack::FLAG_USER_REGS;
        sample.stacks.regs.ip = address;
        events.push(Event::Sample(sample));
    }
    events.push(Event::Attachment(Attachment {
        kind: AttachmentKind::JitDump,
        pid: 1,
        path: b"/x/jit-1.dump".to_vec(),
        bytes: jitdump(address, &[(110, "baseline"), (200, "optimised"), (300, "baseline")]),
    }));
    let (tables, facts, resolved) = replay(&log(&events), &NoBinaries);
    let leaf = |stack: Option<StackId>| tables.stacks[stack.unwrap().index()].frame;
    let named: Vec<&str> = facts
        .samples
        .iter()
        .map(|sample| &*tables.names[&leaf(sample.stack)].symbol)
        .collect();
    assert_eq!(named, ["baseline", "optimised", "optimised", "baseline"]);
    assert_eq!(leaf(facts.samples[1].stack), leaf(facts.samples[2].stack));
    events.push(Event::Resolved(resolved));
    assert_eq!(replay(&log(&events), &NoBinaries).0, tables, "also from a kept log");
}
