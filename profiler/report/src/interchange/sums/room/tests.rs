//! Tests that totals do not change, whatever the limit is.

use proptest::prelude::*;

use super::*;
use base::addr::FileOffset;
use fact::fault::{FilePlace, MappedFile};
use fact::fixtures::{fault, process, thread};
use fact::{
    FactSink as _, FaultFact, Frame, FrameId, Location, MappedFileId, ProcessId, StackNode, ThreadId, TruncationReason,
};

/// Processes of the same name with two threads each, and a binary tree of stacks.
fn tables(processes: u32) -> Tables {
    let mut tables = Tables::default();
    for number in 0..processes {
        tables.processes.push(process(number + 1, "browser"));
        for tid in 0..2 {
            tables.threads.push(thread(number, 2 * number + tid + 1));
        }
    }
    tables.frames.push(Frame {
        location: Location::Truncated(TruncationReason::Limit),
        is_return_address: false,
    });
    for number in 0..1023_u32 {
        tables.stacks.push(StackNode {
            parent: number.checked_sub(1).map(|below| StackId::new(below / 2)),
            frame: FrameId(0),
        });
    }
    tables
}

/// A fault of a thread at a stack, with a latency in ns.
fn fact((thread, stack, time): (u32, u32, u64)) -> FaultFact {
    FaultFact {
        thread: ThreadId(thread),
        stack: Some(StackId::new(stack)),
        latency: Some(std::time::Duration::from_nanos(time)),
        ..fault()
    }
}

fn total(sums: &[(Key, Sum)]) -> (u64, u64) {
    sums.iter()
        .fold((0, 0), |(count, time), (_, sum)| (count + sum.count, time + sum.time))
}

proptest! {
    #[test]
    fn totals_stay(
        facts in prop::collection::vec((0..40_u32, 0..1023_u32, 0..1000_u64), 1..400),
        room in 1..200_usize,
        ended in prop::collection::vec(any::<bool>(), 20),
    ) {
        let tables = tables(20);
        let mut sums = Sums::within(&[Table::Faults], room);
        for (number, one) in facts.iter().enumerate() {
            sums.fault(&tables, &fact(*one));
            if number == facts.len() / 2 {
                for (id, _) in (0..).map(ProcessId).zip(&ended).filter(|(_, ended)| **ended) {
                    sums.process_ended(&tables, id);
                }
            }
            prop_assert!(sums.by_key.len() <= room);
        }
        let finished = sums.finish(&tables);
        let time = facts.iter().map(|(_, _, time)| time).sum();
        prop_assert_eq!(total(&finished), (facts.len() as u64, time));
        let cut: u64 = finished.iter().filter(|(key, _)| key.cut).map(|(_, sum)| sum.count).sum();
        prop_assert_eq!(sums.cut, cut);
    }
}

#[test]
fn threads_of_ended_processes_merge_before_truncation() {
    let tables = tables(20);
    let mut sums = Sums::within(&[Table::Faults], 16);
    for number in 0..20 {
        sums.fault(&tables, &fact((2 * number, 7, 5)));
        sums.process_ended(&tables, ProcessId(number));
    }
    let finished = sums.finish(&tables);
    assert_eq!(total(&finished), (20, 100));
    assert!(
        finished
            .iter()
            .all(|(key, _)| !key.cut && key.stack == Some(StackId::new(7)))
    );
    let named: Vec<&Name> = finished
        .iter()
        .filter_map(|(key, _)| match key.who {
            Who::Named(number) => sums.name(number),
            _ => None,
        })
        .collect();
    let expected = Name {
        process: Some("browser".into()),
        thread: String::new(),
        cgroup: None,
    };
    assert_eq!(named, [&expected]);
    assert_eq!(sums.left_out().len(), 1);
}

#[test]
fn files_of_one_path_merge_before_truncation() {
    let mut tables = tables(1);
    for path in ["/memfd:shared"; 20].into_iter().chain(["/other", ""]) {
        tables.files.push(MappedFile {
            path: path.into(),
            ..MappedFile::default()
        });
    }
    let mut sums = Sums::within(&[Table::Faults], 16);
    for file in 0..22 {
        let place = FilePlace {
            file: MappedFileId(file),
            offset: FileOffset(0),
            byte: FileOffset(0),
        };
        let place = Some(place);
        sums.fault(
            &tables,
            &FaultFact {
                place,
                ..fact((0, 7, 5))
            },
        );
    }
    let finished = sums.finish(&tables);
    assert_eq!(total(&finished), (22, 110));
    assert!(finished.iter().all(|(key, _)| !key.cut));
    let mut files: Vec<_> = finished
        .iter()
        .filter_map(|(key, sum)| match key.file? {
            Subject::File(id) => Some((&*tables.files[id.index()].path, sum.count)),
            Subject::Path(_) => None,
        })
        .collect();
    files.sort_unstable();
    assert_eq!(files, [("", 1), ("/memfd:shared", 20), ("/other", 1)]);
    assert!(sums.left_out().is_empty(), "{:?}", sums.left_out());
}

#[test]
fn the_heaviest_rows_keep_their_stacks() {
    let tables = tables(1);
    let mut sums = Sums::within(&[Table::Faults], 100);
    for stack in 511..1023 {
        let time = if stack % 16 == 0 { 1000 } else { 1 };
        sums.fault(&tables, &fact((0, stack, time)));
    }
    let finished = sums.finish(&tables);
    let heavy = |(key, sum): &&(Key, Sum)| sum.time >= 1000 && !key.cut;
    assert_eq!(finished.iter().filter(heavy).count(), 32);
    assert_eq!(total(&finished), (512, 32 * 1000 + 480));
    assert_eq!(
        sums.cut,
        480 - finished.iter().filter(|(key, sum)| !key.cut && sum.time == 1).count() as u64
    );
    assert!(
        sums.left_out()[0].contains("cut to their outer frames"),
        "{:?}",
        sums.left_out()
    );
}

#[test]
fn the_outer_half_contains_half_the_frames() {
    let tables = tables(1);
    let depth = |stack| upwards(&tables, stack).count();
    for number in 0..1023 {
        let stack = StackId::new(number);
        assert_eq!(outer_half(&tables, stack).map_or(0, depth), depth(stack) / 2);
    }
}
