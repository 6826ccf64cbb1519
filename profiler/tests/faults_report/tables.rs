//! The tables of faults.

use std::time::Duration;

use profiler::fact::fault::FaultClass;
use profiler::fact::{FaultFact, ThreadId};
use profiler::report::faults::tally::FaultTally;
use profiler::report::faults::warn::warnings;
use profiler::report::faults::{FaultReport, Selection, Selector, View};
use profiler::report::grid::Measure as _;

use super::synthetic::{self, Made, STACKS, empty, fault, many, place, stack};
use super::{collected, report, text};

const N: u64 = 12_000;

fn sum<'t>(tallies: impl Iterator<Item = &'t FaultTally>) -> FaultTally {
    let mut sum = FaultTally::default();
    tallies.for_each(|tally| sum.merge(tally));
    sum
}

/// Every table is a partition of the selected faults.
fn adds_up(report: &FaultReport) {
    let all = report.totals;
    for table in ["file", "section", "function", "class", "process", "thread", "phase"] {
        let rows = report.tables.rows(&format!("by_{table}"));
        assert_eq!(sum(rows.iter().map(|row| &row.tally)), all, "by {table}");
    }
    let time = &report.time;
    let parts = [
        time.lock_ns,
        time.disk_ns,
        time.other_read_ns,
        time.blocked_ns,
        time.preempted_ns,
    ];
    assert_eq!(
        parts.iter().flatten().sum::<u64>() + time.rest_ns,
        all.time_ns,
        "parts of the time"
    );
    for table in ["by_file", "by_thread", "by_class"] {
        let rows: Vec<_> = report.tables.rows(table).iter().map(|row| row.tally).collect();
        assert!(
            rows.is_sorted_by(|a, b| (a.time_ns, a.faults) >= (b.time_ns, b.faults)),
            "by time, then count"
        );
    }
}

#[test]
fn totals_match_the_faults_and_tables_add_up() {
    let report = report(&many(N), &Selection::default());
    adds_up(&report);
    // Computed from the rules of `many` with plain arithmetic.
    let numbers = || 0..N;
    assert_eq!(report.totals.faults, N);
    assert_eq!(report.totals.major, numbers().filter(|i| i % 7 == 0).count() as u64);
    assert_eq!(report.totals.untimed, N / 50);
    assert_eq!(report.totals.failed, N / 12);
    let time: u64 = numbers().filter(|i| i % 50 != 49).map(|i| i % 1000 * 1000).sum();
    assert_eq!(report.totals.time_ns, time);
    let waited = numbers().filter(|i| i % 11 == 0 && i % 1000 >= 2).count();
    assert_eq!(report.totals.waited, waited as u64);
    let demo = report
        .tables
        .rows("by_file")
        .iter()
        .find(|row| row.number("inode") == Some(7))
        .unwrap();
    assert_eq!(demo.tally.faults, N * 2 / 5);
    assert_eq!(demo.text("device"), Some("8:1"));
    assert_eq!(report.read_around_off.rows[0].tally.faults, N / 500);
    // Pages 1 to 15 are .text, 16 to 31 .data, and page 0 is in no section.
    let section = |name: Option<&str>| {
        let rows = report
            .tables
            .rows("by_section")
            .iter()
            .filter(|row| row.file() == demo.file());
        rows.filter(|row| row.text("section") == name)
            .map(|row| row.tally.faults)
            .sum::<u64>()
    };
    let pages = |low, high| {
        numbers()
            .filter(|i| i % 5 < 2 && (low..high).contains(&(i % 32)))
            .count() as u64
    };
    assert_eq!(
        [section(None), section(Some(".text")), section(Some(".data"))],
        [pages(0, 1), pages(1, 16), pages(16, 32)]
    );
}

#[test]
fn functions_have_their_own_faults_and_those_of_their_callees() {
    let report = report(&many(N), &Selection::default());
    let row = |name: Option<&str>| {
        report
            .tables
            .rows("by_function")
            .iter()
            .find(|row| row.text("function") == name)
            .unwrap()
    };
    let quarter = N / 4;
    // The innermost named function: the inlined one; memcpy is unnamed, so its caller counts.
    for (name, own, inclusive) in [
        (Some("inlined"), quarter, quarter),
        (Some("outer"), 0, quarter),
        (Some("recurse"), quarter, quarter),
        (Some("main"), 0, 2 * quarter),
        (Some("_start"), 0, quarter),
        (Some("libc.so.6 + 0x0"), 0, quarter),
        (Some("other.so + 0x0"), quarter, quarter),
        (None, quarter, quarter),
    ] {
        let row = row(name);
        let all = row.number("inclusive_faults").unwrap();
        assert_eq!((row.tally.faults, all), (own, inclusive), "{name:?}");
        if own > 0 {
            assert_eq!(Some(row.tally.time_ns), row.number("inclusive_time_ns"), "{name:?}");
        }
    }
    // A name built from an address says nothing without its module, but does distinguish functions.
    let mut made = empty();
    let stack = stack(
        &mut made.tables,
        &[
            ("demo", Some(&["main"])),
            ("libdemo.so", Some(&["libdemo.so + 0x8fd0"])),
        ],
    );
    made.faults = vec![FaultFact {
        stack: Some(stack),
        ..fault(0)
    }];
    let one = super::report(&made, &Selection::default());
    assert_eq!(
        one.tables.rows("by_function")[0].text("function"),
        Some("libdemo.so + 0x8fd0")
    );
    assert_eq!(row(Some("recurse")).text("module"), Some("libdemo.so"));
    assert!(
        report
            .tables
            .rows("by_function")
            .iter()
            .all(|row| row.text("function") != Some("copy_to_user"))
    );
}

/// The number of faults that a selection takes.
#[expect(clippy::needless_pass_by_value, reason = "each is built for one call")]
fn taken(made: &Made, selection: Selection) -> u64 {
    let report = report(made, &selection);
    adds_up(&report);
    report.totals.faults
}

#[test]
fn selections_partition_the_faults() {
    let made = many(N);
    let text = |text: &str| vec![text.to_owned()];
    let class = |class| Selection {
        classes: vec![class],
        ..Selection::default()
    };
    assert_eq!(
        FaultClass::ALL.iter().map(|one| taken(&made, class(*one))).sum::<u64>(),
        N
    );
    let file = |name| Selection {
        files: text(name),
        ..Selection::default()
    };
    for name in ["libdemo.so", "/usr/lib/libdemo.so", "lib*.so", "/usr/lib/*"] {
        assert_eq!(taken(&made, file(name)), N * 2 / 5, "{name}");
    }
    assert_eq!(taken(&made, file("data, \"1\".bin")), N / 5);
    assert_eq!(taken(&made, file("*")), N * 3 / 5);
    let process = |name| Selection {
        processes: text(name),
        ..Selection::default()
    };
    assert_eq!(taken(&made, process("100")), N * 2 / 3);
    assert_eq!(taken(&made, process("demo")) + taken(&made, process("child")), N);
    let thread = |name| Selection {
        threads: text(name),
        ..process("demo")
    };
    assert_eq!(taken(&made, thread("work*")), N / 3);
    assert_eq!(taken(&made, thread("200")), 0, "it belongs to another process");
    let function = |name| Selection {
        functions: text(name),
        ..Selection::default()
    };
    assert_eq!(taken(&made, function("recurse")), N / 4);
    assert_eq!(taken(&made, function("main")), 0);
    let under = |name| Selection {
        under: text(name),
        ..Selection::default()
    };
    assert_eq!(taken(&made, under("main")), N / 2);
    let middle = Some(Duration::from_micros(3 * N / 2));
    let early = Selection {
        to: middle,
        ..Selection::default()
    };
    let late = Selection {
        from: middle,
        ..Selection::default()
    };
    assert_eq!((taken(&made, early), taken(&made, late)), (N / 2, N / 2));
    let both = Selection {
        major: true,
        waited: true,
        ..Selection::default()
    };
    let expected = (0..N).filter(|i| i % 7 == 0 && i % 11 == 0 && i % 1000 >= 2).count();
    assert_eq!(taken(&made, both), expected as u64);
}

#[test]
fn an_unmatched_name_is_an_error_with_a_remedy() {
    let (tables, facts) = collected(&many(10));
    let view = View::new(&tables, &facts);
    let selection = Selection {
        files: vec!["libxul\u{1b}.so".into()],
        ..Selection::default()
    };
    let error = Selector::new(&view, &selection).unwrap_err().to_string();
    assert!(
        error.contains("no file") && error.contains("without --file") && !error.contains('\u{1b}'),
        "{error}"
    );
}

#[test]
fn the_text_fits_a_terminal_and_says_what_is_left_out() {
    let made = many(N);
    let report = report(&made, &Selection::default());
    let text = text(&report, 2);
    let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "{long:#?}");
    for part in [
        "demo --all, 2.00 s",
        "12,000",
        "by section of libdemo.so",
        "(10 more)",
        "total",
        "warning:",
        "libdemo.so (",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // The rows of a table add up to its total.
    let classes = text
        .split("by class")
        .nth(1)
        .unwrap()
        .split("by process")
        .next()
        .unwrap();
    let faults: Vec<u64> = (classes.lines().skip(1).filter(|line| !line.is_empty()))
        .map(|line| line[36..47].trim().replace(',', "").parse().unwrap())
        .collect();
    assert_eq!(faults.len(), 4, "{classes}");
    assert_eq!(faults[..3].iter().sum::<u64>(), N);
    assert_eq!(faults[3], N);
}

#[test]
fn the_account_balances_or_is_reported() {
    let closed = report(&synthetic::with_accounts(many(150), 0), &Selection::default());
    assert_eq!(closed.account.kernel, 115 - 10 + 55);
    assert_eq!(
        (closed.account.seen, closed.account.lost, closed.account.filtered),
        (150, 4, 6)
    );
    assert_eq!((closed.account.not_visible, closed.account.unwatched), (0, 1));
    assert_eq!(closed.accounts[2].not_visible, None);
    assert!(
        !warnings(&closed)
            .iter()
            .any(|warning| warning.contains("do not reconcile"))
    );
    let text = text(&closed, 1);
    assert!(
        text.contains("account: kernel counted 160, recorded 150, lost 4, not requested 6,"),
        "{text}"
    );

    let open = report(&synthetic::with_accounts(many(150), 5), &Selection::default());
    assert_eq!(open.accounts[1].not_visible, Some(5));
    assert!(
        warnings(&open)
            .iter()
            .any(|warning| warning.contains("tier 1 should see all"))
    );

    let mut lower = synthetic::with_accounts(many(150), 5);
    lower.tables.recording.hooks[0].hook = "perf page-faults".into();
    assert!(
        !warnings(&report(&lower, &Selection::default()))
            .iter()
            .any(|warning| warning.contains("do not reconcile"))
    );

    lower.tables.threads[1].minor_faults = Some(1);
    assert!(
        warnings(&report(&lower, &Selection::default()))
            .iter()
            .any(|warning| warning.contains("than the kernel counted (threads: 1)"))
    );
}

#[test]
fn unknown_ids_do_not_panic() {
    let mut made = many(100);
    made.tables.stacks[0].parent = Some(fact::StackId::new(5));
    made.tables.processes[0].parent = Some(fact::ProcessId(1));
    made.tables.files.truncate(1);
    made.tables.threads.truncate(1);
    made.tables.frames.truncate(3);
    made.tables.modules.clear();
    assert_eq!(STACKS.len(), 4);
    let report = report(&made, &Selection::default());
    adds_up(&report);
    assert!(text(&report, 3).contains("[unknown]"));
}

#[test]
fn an_empty_selection_is_reported_without_panic() {
    let made = many(100);
    let none = Selection {
        from: Some(Duration::from_millis(1999)),
        ..Selection::default()
    };
    let text = text(&report(&made, &none), 10);
    assert!(text.contains("faults:  0 of 100,"), "{text}");
    assert!(!text.contains("by file"), "{text}");
    adds_up(&report(&Made::default(), &Selection::default()));
}

#[test]
fn pages_are_listed_by_file() {
    let mut made = empty();
    let range = |first, count| fact::fault::PageRange { first, count };
    made.reads = vec![fact::PagesReadFact {
        time: synthetic::at(1),
        thread: ThreadId(0),
        file: fact::MappedFileId(0),
        pages: range(16, 32),
        by: fact::PagesBy::Fault,
        order: Some(0),
    }];
    // Reads 16 to 47, repeats, and maps 16 to 31 around page 20: 32 to 47 were read but not used.
    made.faults = vec![FaultFact {
        class: FaultClass::FileCow,
        place: place(0, 20),
        mapped: "-4+16".parse().ok(),
        retries: Some(1),
        ..fault(0)
    }];
    let report = report(&made, &Selection::default());
    let [pages] = &*report.pages else {
        panic!("{:?}", report.pages)
    };
    assert_eq!((pages.faulted_bytes, pages.read_by_faults_bytes), (4096, 32 * 4096));
    assert_eq!((pages.wasted_bytes, pages.read_by_calls_bytes), (Some(16 * 4096), 0));
    let [copies] = &*report.copies else {
        panic!("{:?}", report.copies)
    };
    assert_eq!(
        (copies.data_bytes, copies.data_ns, copies.relocated_bytes),
        (4096, 10_000, 0)
    );
    let text = text(&report, 10);
    assert!(text.contains("wasted\n/usr/lib/libdemo.so"), "{text}");
    assert!(text.contains("131 kB") && text.contains("65.5 kB"), "{text}");
}
