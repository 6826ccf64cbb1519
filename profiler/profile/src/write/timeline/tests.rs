//! Tests of rows of waits and samples: distribution of CPU time, and splitting of waits.

use proptest::prelude::*;

use super::*;
use fact::wait::{Coverage, WaitReason};

fn row(time: u64, cpu: u64, is_sample: bool) -> TimelineRow {
    TimelineRow {
        time: Timestamp(time),
        stack: None,
        weight: 0,
        cpu,
        is_sample,
    }
}

fn wait(start: u64, end: u64, off: u64) -> WaitFact {
    WaitFact {
        start: Timestamp(start),
        end: Timestamp(end),
        thread: ThreadId(0),
        stack: None,
        off: std::time::Duration::from_nanos(off),
        queued: std::time::Duration::ZERO,
        longest: std::time::Duration::from_nanos(off),
        count: 1,
        reason: WaitReason::Disk,
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

#[test]
fn cpu_time_before_a_wait_is_placed_at_its_start() {
    // Ran 30, waited 50, ran 20, was sampled; then 10 to its end.
    let mut rows = [
        row(0, 0, true),
        row(30, 0, false),
        row(80, 0, false),
        row(100, 50, true),
        row(110, 10, true),
    ];
    spread_cpu_time(&mut rows, &[wait(30, 80, 50)]);
    assert_eq!(rows.map(|row| row.cpu), [0, 30, 0, 20, 10]);
}

#[test]
fn surplus_cpu_time_stays_with_its_sample() {
    let mut rows = [
        row(0, 0, true),
        row(30, 0, false),
        row(80, 0, false),
        row(100, 500, true),
    ];
    spread_cpu_time(&mut rows, &[wait(30, 80, 50)]);
    assert_eq!(rows.map(|row| row.cpu), [0, 30, 50, 420]);
}

#[test]
fn wait_rows_do_not_overlap_each_other_or_samples() {
    let mut rows = [
        row(10, 0, false),
        row(10, 0, false),
        row(10, 0, false),
        row(11, 0, true),
        row(11, 0, false),
    ];
    part_equal_times(&mut rows);
    assert_eq!(rows.map(|row| row.time.0), [10, 11, 11, 11, 12]);
}

#[test]
fn a_long_wait_is_cut_into_parts_of_the_same_weight() {
    let labels = Labels::default();
    let waiting = Waiting {
        labels: &labels,
        part: 100,
        folded: FxHashMap::default(),
    };
    let mut rows = Vec::new();
    waiting.add(&mut rows, &wait(1000, 1450, 450));
    let seen: Vec<_> = rows.iter().map(|row| (row.time.0, row.weight)).collect();
    assert_eq!(seen, [(1000, 0), (1112, 112), (1225, 113), (1337, 112), (1450, 113)]);
}

proptest! {
    #[test]
    fn cpu_time_is_conserved(
        times in prop::collection::vec((0u64..10_000, any::<bool>(), 0u64..2_000), 1..60),
        waits in prop::collection::vec((0u64..10_000, 0u64..3_000, 0u64..4_000), 0..40),
    ) {
        let mut rows: Vec<TimelineRow> = times.iter().map(|(time, is_sample, cpu)| row(*time, if *is_sample { *cpu } else { 0 }, *is_sample)).collect();
        rows.sort_by_key(|row| (row.time, row.is_sample));
        let waits: Vec<WaitFact> = waits.iter().map(|(start, length, off)| wait(*start, start + length, *off)).collect();
        let before: Vec<u64> = rows.iter().filter(|row| row.is_sample).map(|row| row.cpu).collect();
        part_equal_times(&mut rows);
        prop_assert!(rows.is_sorted_by_key(|row| row.time));
        spread_cpu_time(&mut rows, &waits);
        // As the reader merges it again.
        let (mut after, mut sum) = (Vec::new(), 0);
        for row in &rows {
            sum += row.cpu;
            if row.is_sample {
                after.push(std::mem::take(&mut sum));
            }
        }
        prop_assert_eq!(after, before);
    }
}
