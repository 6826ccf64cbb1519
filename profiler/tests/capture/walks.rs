//! Stacks walked in the kernel: exact ones, across fork and exec, and false tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use profiler::capture::socket::wire::{Request, TableOf};
use profiler::event::{Event, FileId, Sample, Segment, UserStack};
use profiler::record::table_maker::segments;
use profiler::unwind::table::compile as compile_table;
use profiler_common::stack::MAX_USER_FRAMES;
use profiler_common::stack::{FLAG_IN_KERNEL, FLAG_WALK_COMPLETE};
use profiler_common::unwind::WalkEnd;
use symbols::elf::ElfFile;

use crate::emulated::is_emulated;
use crate::harness::{CaptureProcess, Recording, Waiting, command, record_with, skipped};
use crate::program::Program;

/// Addresses of programs without position independence.
const FIXED: std::ops::Range<u64> = 0x40_0000..0x50_0000;

fn memory(bytes: &[u8]) -> File {
    let mut file = File::from(memfd_create("table", MFdFlags::MFD_ALLOW_SEALING).unwrap());
    file.write_all(bytes).unwrap();
    fcntl(
        &file,
        FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK),
    )
    .unwrap();
    file
}

/// The table of a file. Those of libraries are built once: on an emulated machine each takes seconds.
fn table(path: &Path, elf: &ElfFile) -> File {
    static MADE: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut tables = MADE.lock().unwrap();
    let make = || compile_table(elf).unwrap().to_bytes();
    memory(tables.entry(path.to_owned()).or_insert_with(make))
}

/// Sends the table of the file at `path` as that of `file`.
fn send(capture: &CaptureProcess, file: FileId, path: &Path, lie: Option<Vec<Segment>>) {
    let elf = ElfFile::open(File::open(path).unwrap()).unwrap();
    let of = TableOf {
        file: Some(file),
        name: path.display().to_string(),
        segments: lie.unwrap_or_else(|| segments(&elf)),
    };
    capture.send(&Request::Table(of), Some(&table(path, &elf)));
}

/// Records a program; sends its tables before it runs, except those that `prepare` handles.
fn run(
    program: &Program,
    arguments: &[&str],
    prepare: impl Fn(&CaptureProcess, FileId, &Path) -> bool,
) -> (Recording, u32) {
    let code = program.code();
    assert!(code.len() >= 3, "{code:?}");
    let waiting = Waiting::new(&program.path, arguments);
    let pid = waiting.pid();
    let request = command(pid).with(|terms| {
        terms.stack_copy = 0;
        // There a walk of 900 frames takes longer than a sample's interval, and the program would hardly run.
        if is_emulated() && cfg!(target_arch = "aarch64") {
            terms.sample_hz = 200;
        }
    });
    let recording = record_with(request, |capture| {
        for (file, path) in &code {
            if !prepare(capture, *file, path) {
                send(capture, *file, path, None);
            }
        }
        assert_eq!(waiting.run(), Some(0));
    });
    (recording, pid)
}

fn stacks(recording: &Recording) -> BTreeMap<u64, &UserStack<'static>> {
    let stack = |event: &'_ Event<'static>| matches!(event, Event::UserStack(_));
    let found = recording.events.iter().filter(|event| stack(event));
    found
        .filter_map(|event| match event {
            Event::UserStack(stack) => Some((stack.key, stack)),
            _ => None,
        })
        .collect()
}

/// The samples of a process taken in `leaf`, and their stacks.
fn in_leaf<'r>(
    recording: &'r Recording,
    program: &'r Program,
    pid: u32,
) -> Vec<(&'r Sample<'static>, Vec<&'r str>, &'r UserStack<'static>)> {
    let (stacks, bias) = (stacks(recording), program.bias(recording));
    let samples = recording.samples().filter(|sample| sample.at.pid == pid);
    let found: Vec<_> = samples
        .filter_map(|sample| {
            let stack = *stacks.get(&sample.stacks.user)?;
            let names = program.names(bias, stack);
            (names[0] == "leaf").then_some((sample, names, stack))
        })
        .collect();
    assert!(found.len() > 20, "{} samples in leaf", found.len());
    found
}

/// Every walk from `leaf` is complete and has exactly `depth` frames of `descend`, once the walker knows the
/// libraries; before that, it is the part below them.
fn expect_exact(recording: &Recording, program: &Program, pid: u32, depth: usize) {
    let found = in_leaf(recording, program, pid);
    let is_whole = |sample: &Sample<'_>| sample.stacks.flags & FLAG_WALK_COMPLETE != 0;
    let first = found
        .iter()
        .position(|(sample, ..)| is_whole(sample))
        .unwrap_or(found.len());
    let ends = || {
        let end = |stack: &UserStack<'_>| format!("{:?} after {}", WalkEnd::from_number(stack.end), stack.frames.len());
        let mut ends = BTreeMap::<_, usize>::new();
        for (_, _, stack) in &found {
            *ends.entry(end(stack)).or_default() += 1;
        }
        format!("{ends:?} {:?}", recording.warnings)
    };
    assert!(
        found.len() - first > 20,
        "{first} of {} walks are early: {}",
        found.len(),
        ends()
    );
    let mut lengths = BTreeSet::new();
    for (number, (sample, names, stack)) in found.iter().enumerate() {
        let chain = ["leaf"]
            .into_iter()
            .chain(std::iter::repeat_n("descend", depth))
            .chain(["main"]);
        assert!(
            names.iter().zip(chain).all(|(name, expected)| *name == expected),
            "{names:?}"
        );
        let end = WalkEnd::from_number(stack.end);
        if number < first {
            // Unknown at that time: the process, or libc, or libc's table.
            let early = matches!(end, Some(WalkEnd::NoSpace | WalkEnd::NoMapping | WalkEnd::NoTable));
            assert!(early, "{end:?} {names:?}");
            continue;
        }
        assert!(names.len() > depth + 2, "{names:?}");
        assert!(is_whole(sample), "{end:?} {names:?}");
        assert_eq!(
            (end, names.last()),
            (Some(WalkEnd::Complete), Some(&"_start")),
            "{names:?}"
        );
        assert!(sample.stacks.copy.is_empty());
        lengths.insert(names.len());
    }
    // main's callers in libc are the same each time.
    assert_eq!(lengths.len(), 1, "{lengths:?}");
}

#[test]
fn a_recursion_has_exactly_its_frames() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The last one's frames are too large for a rule in words.
    for (kind, words, depth) in [
        ("-pie", 1, 10),
        ("-no-pie", 7, 100),
        ("-pie", 300, 900),
        ("-pie", 60_000, 4),
    ] {
        let program = Program::new(folder.path(), &format!("recurse{depth}"), words, kind);
        let (recording, pid) = run(&program, &["burn", &depth.to_string()], |_, _, _| false);
        expect_exact(&recording, &program, pid, depth);
        assert_eq!(recording.losses(), Vec::<&Event<'_>>::new());
    }
}

#[test]
fn the_leaf_part_of_a_deep_stack_is_kept() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(folder.path(), "deeper", 1, "-pie");
    let (recording, pid) = run(&program, &["burn", "2000"], |_, _, _| false);
    let found = in_leaf(&recording, &program, pid);
    let early = found
        .iter()
        .take_while(|(_, _, stack)| stack.end != WalkEnd::Limit as u8)
        .count();
    assert!(found.len() - early > 20, "{early} of {} walks are early", found.len());
    for (sample, names, stack) in &found[early..] {
        assert_eq!(
            (stack.end, sample.stacks.flags & FLAG_WALK_COMPLETE),
            (WalkEnd::Limit as u8, 0)
        );
        assert_eq!(names.len(), MAX_USER_FRAMES);
        assert!(names[1..].iter().all(|name| *name == "descend"));
    }
}

/// A walk may reuse the outer part of the previous one if it is the same: here, inner and outer frames are at the
/// addresses of earlier ones.
#[test]
fn stacks_that_differ_in_outer_frames_are_distinct() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(folder.path(), "turns", 3, "-pie");
    let (recording, pid) = run(&program, &["turns", "40"], |_, _, _| false);
    let (stacks, bias) = (stacks(&recording), program.bias(&recording));
    let mut seen = BTreeMap::<&str, usize>::new();
    for sample in recording.samples().filter(|sample| sample.at.pid == pid) {
        let Some(stack) = stacks.get(&sample.stacks.user) else {
            continue;
        };
        let names = program.names(bias, stack);
        let Some(outer) = names[0].strip_prefix("leaf_") else {
            continue;
        };
        if sample.stacks.flags & FLAG_WALK_COMPLETE != 0 {
            let chain = std::iter::repeat_n("descend", 40).chain([outer, "main"]);
            assert!(
                names[1..]
                    .iter()
                    .copied()
                    .zip(chain)
                    .all(|(name, expected)| name == expected),
                "{names:?}"
            );
            assert_eq!(names.last(), Some(&"_start"), "{names:?}");
            *seen.entry(outer).or_default() += 1;
        }
    }
    assert!(seen["odd"] > 20 && seen["even"] > 20, "{seen:?}");
}

#[test]
fn a_child_that_maps_nothing_is_walked_with_its_parents_mappings() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(folder.path(), "forks", 3, "-pie");
    // Occasionally the kernel reports the child's libc repeatedly, for an unknown reason: such a child does not
    // count as mapping nothing.
    let recorded = (0..10).find_map(|_| {
        let (recording, pid) = run(&program, &["fork", "50"], |_, _, _| false);
        let child = recording
            .exits()
            .map(|exit| exit.at.pid)
            .find(|other| *other != pid)
            .unwrap();
        let is_of_child = |event: &Event<'_>| matches!(event, Event::Mapping(mapping) if mapping.at.pid == child);
        let maps_nothing = !recording.events.iter().any(is_of_child);
        maps_nothing.then_some((recording, pid, child))
    });
    let (recording, pid, child) = recorded.unwrap();
    expect_exact(&recording, &program, pid, 50);
    expect_exact(&recording, &program, child, 53);
}

#[test]
fn after_exec_the_old_mappings_are_gone() {
    if skipped() {
        return;
    }
    // Both are at the same addresses, with other frames; the second one's table never arrives.
    let folder = tempfile::tempdir().unwrap();
    let first = Program::new(folder.path(), "first", 3, "-no-pie");
    let second = Program::new(folder.path(), "second", 40, "-no-pie");
    let (recording, pid) = run(&first, &["exec", "30", second.path.to_str().unwrap()], |_, _, _| false);
    let executed: Vec<_> = recording
        .events
        .iter()
        .filter_map(|event| match event {
            Event::TaskExec(exec) => Some(exec.at.time),
            _ => None,
        })
        .collect();
    let (stacks, last) = (stacks(&recording), *executed.last().unwrap());
    let (mut before, mut after) = (0, 0);
    for sample in recording
        .samples()
        .filter(|sample| sample.at.pid == pid && sample.stacks.flags & FLAG_IN_KERNEL == 0)
    {
        let Some(stack) = stacks
            .get(&sample.stacks.user)
            .filter(|stack| FIXED.contains(&stack.frames[0]))
        else {
            continue;
        };
        if sample.at.time < last {
            // Early walks end at once, or at main, since its caller's library was mapped just before.
            let is_right = match WalkEnd::from_number(stack.end) {
                Some(WalkEnd::Complete) => true,
                Some(WalkEnd::NoMapping) => stack.frames.len() == 32,
                Some(WalkEnd::NoTable) => matches!(stack.frames.len(), 1 | 33),
                Some(WalkEnd::NoSpace) => stack.frames.len() == 1,
                _ => false,
            };
            assert!(is_right, "{stack:?}");
            before += 1;
        } else {
            let end = WalkEnd::from_number(stack.end);
            assert!(!matches!(end, Some(WalkEnd::Complete | WalkEnd::NoRow)), "{stack:?}");
            assert_eq!(stack.frames.len(), 1, "{end:?} {stack:?}");
            after += 1;
        }
    }
    assert!(before > 20 && after > 20, "{before} {after}");
}

#[test]
fn false_tables_do_no_harm() {
    if skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(folder.path(), "honest", 3, "-pie");
    let other = Program::new(folder.path(), "other", 200, "-pie");
    let segment = |offset, svma, file_size| Segment {
        offset,
        svma,
        file_size,
    };
    let lies: [(Option<Vec<Segment>>, &Path); 5] = [
        (None, &other.path),
        (Some(vec![segment(0, 0x1_0000, u64::MAX)]), &program.path),
        (
            Some(vec![
                segment(u64::MAX, u64::MAX, u64::MAX),
                segment(0, u64::MAX, 1 << 40),
            ]),
            &program.path,
        ),
        (Some(Vec::new()), &program.path),
        (Some(vec![segment(0, 0, 1); 65]), &program.path),
    ];
    for (lie, (segments, of)) in lies.into_iter().enumerate() {
        let (recording, pid) = run(&program, &["burn", "20"], |capture, file, path| {
            let is_ours = path == program.path;
            if is_ours {
                send(capture, file, of, segments.clone());
                capture.send(
                    &Request::Table(TableOf {
                        file: None,
                        name: "none".to_owned(),
                        segments: Vec::new(),
                    }),
                    None,
                );
                capture.send(&Request::NoTable(FileId::default()), None);
            }
            is_ours
        });
        let samples = recording.samples().filter(|sample| sample.at.pid == pid).count();
        assert!(samples > 20, "{lie}: {samples} samples");
        assert!(
            stacks(&recording)
                .values()
                .all(|stack| (1..=MAX_USER_FRAMES).contains(&stack.frames.len()))
        );
        assert_eq!(recording.exits().count(), 1);
        let refused = recording
            .warnings
            .iter()
            .filter(|warning| warning.contains("65 executable segments"))
            .count();
        assert_eq!(refused, usize::from(lie == 4), "{:?}", recording.warnings);
        assert!(
            recording
                .warnings
                .iter()
                .any(|warning| warning.contains("without its bytes"))
        );
    }
}
