//! Sums by stack match those of the other subcommands, whatever was recorded.

use std::collections::BTreeSet;

use profiler::report::faults::{self, FaultReport};
use profiler::report::interchange::{Sums, Table, Weight, folded, otlp, pprof};
use profiler::report::io::{self, IoReport};
use profiler::report::path::{PathFacts, PathView, choose};
use profiler::report::select::Selection;
use profiler::report::waits::{self, WaitReport};
use proptest::prelude::*;

use super::any_recording::recordings;
use super::profile_synthetic::{Synthetic, everything, hostile};
use super::replay;

/// Count, time and bytes of each table.
fn totals(facts: &Synthetic) -> Vec<(Table, [u64; 3])> {
    let mut sums = Sums::new(&Table::ALL);
    replay(facts, &mut sums);
    // No path without a thread that lived.
    let _ = sums.follow_path(&facts.tables, &Selection::default());
    let finished = sums.finish(&facts.tables);
    let of = |table: Table, weight: Weight| {
        let of_table = finished.iter().filter(|(key, _)| key.what.table() == table);
        of_table.fold(0_u64, |all, (_, sum)| all.saturating_add(sum.of(weight)))
    };
    let three = |table| [Weight::Count, Weight::Time, Weight::Bytes].map(|weight| of(table, weight));
    Table::ALL.map(|table| (table, three(table))).to_vec()
}

/// Count and time of the waits that refer to a file, and the names of those files.
fn about_files(facts: &Synthetic) -> ([u64; 2], BTreeSet<String>) {
    let mut sums = Sums::new(&[Table::Waits]);
    replay(facts, &mut sums);
    let finished = sums.finish(&facts.tables);
    let (mut totals, mut names) = ([0_u64; 2], BTreeSet::new());
    for (key, sum) in &finished {
        if let Some(name) = key.file.and_then(|file| sums.path(&facts.tables, file)) {
            totals = [totals[0].saturating_add(sum.count), totals[1].saturating_add(sum.time)];
            names.insert(name.into_owned());
        }
    }
    (totals, names)
}

/// The pieces of the path and its time span.
fn path_totals(facts: &Synthetic) -> [u64; 3] {
    let mut path = PathFacts::default();
    replay(facts, &mut path);
    match choose(&facts.tables, &path, &Selection::default()) {
        Ok(chosen) if !path.is_empty() => {
            let view = PathView::new(&facts.tables, path, chosen);
            let span = chosen.window.end.since(chosen.window.start);
            [view.pieces.len() as u64, u64::try_from(span.as_nanos()).unwrap(), 0]
        }
        _ => [0; 3],
    }
}

fn check(facts: &Synthetic) -> Result<(), TestCaseError> {
    let tables = &facts.tables;
    let mut fault_facts = faults::Facts::default();
    replay(facts, &mut fault_facts);
    let view = faults::View::new(tables, &fault_facts);
    let fault_totals = FaultReport::new(&view, &faults::Selector::default()).totals;
    let mut wait_facts = waits::Facts::default();
    replay(facts, &mut wait_facts);
    let view = waits::View::new(tables, &wait_facts);
    let wait_report = WaitReport::new(&view, &waits::Selector::default());
    let of_files = wait_report
        .tables
        .rows("by_file")
        .iter()
        .filter(|row| row.text("file").is_some());
    let of_files = of_files.fold([0_u64; 2], |[count, time], row| {
        [
            count.saturating_add(row.tally.waits),
            time.saturating_add(row.tally.off_ns),
        ]
    });
    prop_assert_eq!(about_files(facts).0, of_files);
    let mut io_facts = io::Facts::default();
    replay(facts, &mut io_facts);
    let view = io::View::new(tables, &io_facts);
    let selector = io::Selector::new(&view, &Selection::default()).unwrap();
    let io_totals = IoReport::new(&view, &selector).totals;

    let fault_bytes = facts
        .faults
        .iter()
        .fold(0_u64, |sum, fault| sum.saturating_add(fault.total_bytes(4096)));
    let weights = facts.samples.iter().map(|sample| u64::from(sample.weight)).sum();
    let (waited, done) = (wait_report.totals, io_totals.bytes());
    for (table, found) in totals(facts) {
        let expected = match table {
            Table::Samples => [weights, wait_report.lives.on_ns, 0],
            Table::Faults => [fault_totals.faults, fault_totals.time_ns, fault_bytes],
            Table::Requests => [io_totals.ios, io_totals.time_ns, done],
            Table::Waits => [waited.waits, waited.off_ns, 0],
            Table::Path => path_totals(facts),
        };
        prop_assert_eq!(found, expected, "{:?}", table);
    }
    Ok(())
}

#[test]
fn sums_add_up_to_the_report_totals() {
    check(&everything()).unwrap();
}

#[test]
fn a_file_is_named_by_its_descriptor_or_by_the_path_of_the_call() {
    let path = hostile()[0].clone();
    let of_descriptor = format!("/tmp/{path} (deleted)");
    assert_eq!(about_files(&everything()).1, BTreeSet::from([of_descriptor, path]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_recording_can_be_exported(facts in recordings()) {
        check(&facts)?;
        let mut sums = Sums::new(&Table::ALL);
        replay(&facts, &mut sums);
        let mut out = Vec::new();
        pprof::write(&mut out, &facts.tables, &mut sums).unwrap();
        let mut sums = Sums::new(&Table::ALL);
        replay(&facts, &mut sums);
        otlp::write(&mut out, &facts.tables, &mut sums).unwrap();
        for table in Table::ALL {
            let mut sums = Sums::new(&[table]);
            replay(&facts, &mut sums);
            let _ = sums.follow_path(&facts.tables, &Selection::default());
            let mut out = Vec::new();
            folded::write(&mut out, &facts.tables, &mut sums, Weight::Count).unwrap();
            for line in String::from_utf8(out).unwrap().lines() {
                let (stack, weight) = line.rsplit_once(' ').unwrap();
                prop_assert!(weight.parse::<u64>().unwrap() > 0);
                prop_assert!(stack.split(';').all(|name| !name.is_empty()), "{}", stack);
            }
        }
    }
}
