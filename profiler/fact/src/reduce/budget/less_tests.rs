//! Too many stacks lower the limits.

use super::io_tests::wait;
use super::limits::LEAST;
use super::tests::{fault, sample, tables};
use super::*;

#[test]
fn totals_are_preserved() {
    let mut tables = tables(9);
    let many = 2 * LEAST;
    let mut collector = Collector::new(Budget {
        samples: many,
        marks: many,
    });
    for i in 0..many as u64 {
        collector.sample(&tables, &sample(0, i, 1, None));
        collector.fault(&tables, &fault(i, 1, false));
    }
    assert!(!collector.shrink(STACKS) && collector.shrink(STACKS + 1));
    assert_eq!(collector.budget.marks, many - many / 4);
    while collector.shrink(usize::MAX) {}
    let least = Budget {
        samples: LEAST,
        marks: LEAST,
    };
    assert_eq!(collector.budget, least);
    let collected = collector.finish(&mut tables);
    let samples = &collected.threads[0].samples;
    assert!(samples.len() <= LEAST);
    assert_eq!(samples.iter().map(|sample| sample.cpu_time).sum::<u64>(), many as u64);
    let kept: usize = collected
        .threads
        .iter()
        .map(|thread| thread.faults.iter().count())
        .sum();
    let folded: u64 = tables.recording.folded_faults.iter().map(|folded| folded.faults).sum();
    assert_eq!((kept, folded), (LEAST, (many - LEAST) as u64));
}

/// Faults and waits with a stack each, in a collector with less capacity afterwards.
fn thinned(shrinks: bool) -> Collected {
    let mut tables = tables(9);
    let mut collector = Collector::new(Budget {
        samples: 450_000,
        marks: 300_000,
    });
    for number in 0..400_000 {
        let (stack, start) = (Some(StackId::new(number)), u64::from(number));
        let fault = fault(start, start % 1000, false);
        collector.fault(&tables, &FaultFact { stack, ..fault });
        if number % 2 == 0 {
            let wait = wait(start, start % 1000, 0);
            collector.wait(&tables, &WaitFact { stack, ..wait });
        }
    }
    collector.markers.shrink(100_000);
    collector.waits.shrink(1000);
    if shrinks {
        collector.markers.shrink_stacks();
        collector.waits.shrink_stacks();
    }
    // The tables have no stacks, so nothing is dropped.
    collector.finish(&mut tables)
}

#[test]
fn sums_are_kept_without_their_stacks() {
    let [before, after] = [false, true].map(thinned);
    let faults = |collected: &Collected| {
        let sums = collected.folded_stacks.iter();
        sums.fold([0; 3], |all, sum| {
            [all[0] + sum.faults, all[1] + sum.latency, all[2] + sum.bytes]
        })
    };
    let waits = |collected: &Collected| {
        let sums = collected.folded_wait_stacks.iter();
        sums.fold([0; 2], |all, sum| [all[0] + sum.blocked, all[1] + sum.queued])
    };
    assert_eq!((faults(&after), waits(&after)), (faults(&before), waits(&before)));
    let stacks = |collected: &Collected| {
        let faults = collected.folded_stacks.iter().filter(|sum| sum.stack.is_some());
        let waits = collected.folded_wait_stacks.iter().filter(|sum| sum.stack.is_some());
        (faults.count(), waits.count())
    };
    assert_eq!(stacks(&before), (75_000, 75_000));
    // Sums without a stack are among them.
    let (faults, waits) = stacks(&after);
    assert!(
        (65_527..=65_536).contains(&faults) && (991..=1000).contains(&waits),
        "{faults}, {waits}"
    );
    let least = |collected: &Collected| {
        let sums = collected.folded_stacks.iter().filter(|sum| sum.stack.is_some());
        sums.map(|sum| sum.latency).min()
    };
    assert!(least(&before) <= least(&after));
}

#[test]
fn a_few_facts_are_kept_with_any_stacks() {
    let few = Budget { samples: 3, marks: 0 };
    assert!(!Collector::new(few).shrink(usize::MAX));
}
