//! Sums, selections and rows of known waits.

use std::time::Duration;

use profiler::event::FileId;
use profiler::fact::wait::WaitCall;
use profiler::fact::{FactSink as _, MappedFile, MappedFileId, Tables, WaitFact, WaitReason};
use profiler::report::export::{csv_head, csv_row, json_row};
use profiler::report::grid::Measure as _;
use profiler::report::waits::export::{COLUMNS, Exporter};
use profiler::report::waits::tally::WaitTally;
use profiler::report::waits::{Facts, Selection, Selector, View, WaitReport, text};

use crate::made::{EVIL, facts, numbered, tables};

fn report(n: u64, selection: &Selection) -> WaitReport {
    let (tables, facts) = facts(n);
    let view = View::new(&tables, &facts);
    WaitReport::new(&view, &Selector::new(&view, selection).unwrap())
}

fn sum<'t>(tallies: impl Iterator<Item = &'t WaitTally>) -> WaitTally {
    tallies.fold(WaitTally::default(), |mut sum, tally| {
        sum.merge(tally);
        sum
    })
}

#[test]
fn every_table_adds_up() {
    let report = report(5000, &Selection::default());
    let (_, stacks) = tables();
    let all: Vec<_> = (0..5000).map(|i| numbered(i, &stacks)).collect();
    let off: Duration = all.iter().map(|wait| wait.off).sum();
    let totals = report.totals;
    assert_eq!(u128::from(totals.off_ns), off.as_nanos());
    assert_eq!(totals.waits, all.iter().map(|wait| u64::from(wait.count)).sum::<u64>());
    assert_eq!((totals.longest_ns, report.waits_in_file), (999_000, totals.waits));
    for table in [
        "reason", "function", "stack", "call", "file", "waker", "process", "thread",
    ] {
        let rows = report.tables.rows(&format!("by_{table}"));
        let sum = sum(rows.iter().map(|row| &row.tally));
        assert_eq!(sum, totals, "{table}");
    }
    for row in report.tables.rows("by_reason") {
        let lengths = row.lengths("lengths").unwrap().range(0, 54);
        assert_eq!(lengths.iter().sum::<u64>(), row.tally.waits, "{row:?}");
    }
}

#[test]
fn program_functions_distinguish_locks() {
    let report = report(5000, &Selection::default());
    let mut functions: Vec<_> = report
        .tables
        .rows("by_function")
        .iter()
        .map(|row| row.text("function"))
        .collect();
    functions.sort_unstable();
    assert_eq!(functions, [None, Some(EVIL), Some("load"), Some("pause"), Some("work")]);
    let waits = |reason, function: &str| {
        let selection = Selection {
            reasons: vec![reason],
            functions: vec![function.replace('\u{1b}', "?")],
            ..Selection::default()
        };
        self::report(5000, &selection).totals.waits
    };
    assert!(waits(WaitReason::Lock, EVIL) > 0);
    assert_eq!(
        waits(WaitReason::Condition, EVIL),
        0,
        "its innermost function locks a mutex"
    );
    assert!(
        waits(WaitReason::Condition, "work") > 0,
        "a futex without a recognizable name keeps its reason"
    );
}

#[test]
fn selections_partition_the_waits() {
    let all = report(3000, &Selection::default()).totals;
    let of = |selection: Selection| report(3000, &selection).totals;
    let by_reason = WaitReason::ALL.map(|reason| {
        of(Selection {
            reasons: vec![reason],
            ..Selection::default()
        })
    });
    assert_eq!(sum(by_reason.iter()), all);
    let by_thread = ["100", "wor*", "200"].map(|thread| {
        of(Selection {
            threads: vec![thread.into()],
            ..Selection::default()
        })
    });
    assert_eq!(sum(by_thread.iter()), all);
    let middle = Some(Duration::from_millis(4));
    let (from, to) = (
        Selection {
            from: middle,
            ..Selection::default()
        },
        Selection {
            to: middle,
            ..Selection::default()
        },
    );
    assert_eq!(sum([of(from), of(to)].iter()), all);
    let processes = ["demo", "200"].map(|process| {
        of(Selection {
            processes: vec![process.into()],
            ..Selection::default()
        })
    });
    assert_eq!(sum(processes.iter()), all);
    let long = of(Selection {
        at_least: Duration::from_micros(100),
        ..Selection::default()
    });
    let (_, stacks) = tables();
    let expected = (0..3000).map(|i| numbered(i, &stacks));
    let expected = expected.filter(|wait| wait.off / wait.count >= Duration::from_micros(100));
    assert_eq!(long.waits, expected.map(|wait| u64::from(wait.count)).sum::<u64>());
}

/// Waits of 1, 2, 4, ... µs on descriptors of every kind of file, and on paths that only calls
/// name, one of which belongs to a file.
fn about_files() -> (Tables, Facts) {
    let (mut tables, stacks) = tables();
    let id = FileId {
        inode: 7,
        ..FileId::default()
    };
    let gone = MappedFile {
        path: "/tmp/gone.so".into(),
        deleted: true,
        ..MappedFile::default()
    };
    let nameless = MappedFile {
        id,
        ..MappedFile::default()
    };
    tables.files.extend([gone, nameless]);
    let calls = [
        (Some(0), None),
        (None, Some("/var/lib/demo.db")),
        (Some(1), Some("/not/shown")),
        (Some(2), None),
        (None, Some("lib/foo.so")),
        (None, Some("/usr/lib/foo.so")),
        (None, Some(EVIL)),
        (None, Some("")),
        (None, None),
    ];
    let mut facts = Facts::default();
    for (i, (file, path)) in (0..).zip(calls) {
        let call = WaitCall {
            number: 257,
            name: "openat".into(),
            file: file.map(MappedFileId),
            path: path.map(str::to_owned),
        };
        let wait = WaitFact {
            call: Some(call),
            off: Duration::from_micros(1 << i),
            ..numbered(i, &stacks)
        };
        facts.wait(&tables, &wait);
    }
    (tables, facts)
}

#[test]
fn each_file_row_can_be_selected() {
    let (tables, facts) = about_files();
    let view = View::new(&tables, &facts);
    let of = |file: &str| {
        let selection = Selection {
            files: vec![file.into()],
            ..Selection::default()
        };
        WaitReport::new(&view, &Selector::new(&view, &selection).unwrap()).totals
    };
    let all = WaitReport::new(&view, &Selector::default());
    let named: Vec<_> = all
        .tables
        .rows("by_file")
        .iter()
        .filter_map(|row| row.text("file").zip(Some(row.tally)))
        .collect();
    assert_eq!(named.len(), 6, "{named:?}");
    for (file, tally) in named {
        assert_eq!(of(file), tally, "{file}");
    }
    for (file, us) in [
        ("demo.db", 1 + 2),
        ("gone.so", 4),
        ("foo.so", 16 + 32),
        ("lib/*.so", 16),
    ] {
        assert_eq!(of(file).off_ns, us * 1000, "{file}");
    }
    let not_shown = Selection {
        files: vec!["shown".into()],
        ..Selection::default()
    };
    assert!(
        Selector::new(&view, &not_shown).is_err(),
        "the descriptor identifies it"
    );
}

#[test]
fn an_unmatched_name_is_an_error_with_usage() {
    let (tables, facts) = facts(10);
    let view = View::new(&tables, &facts);
    let selection = Selection {
        threads: vec!["absent".into()],
        ..Selection::default()
    };
    let error = Selector::new(&view, &selection).unwrap_err().to_string();
    assert!(error.contains("thread") && error.contains("ngmi waits FILE"), "{error}");
}

#[test]
fn text_fits_eighty_columns_whatever_the_names_are() {
    for n in [1, 30, 5000] {
        let mut out = Vec::new();
        text::write(&mut out, &report(n, &Selection::default()), 10, true).unwrap();
        let text = String::from_utf8(out).unwrap();
        let text = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[33m"]
            .iter()
            .fold(text, |text, style| text.replace(style, ""));
        assert!(!text.contains('\u{1b}'));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn a_row_is_one_line_with_every_column() {
    let (tables, facts) = facts(600);
    let view = View::new(&tables, &facts);
    let mut exporter = Exporter::new(&view);
    let (mut csv, mut json) = (Vec::new(), Vec::new());
    csv_head(&mut csv, &COLUMNS).unwrap();
    for wait in view.waits() {
        csv_row(&mut csv, &exporter.row(&wait)).unwrap();
        json_row(&mut json, &COLUMNS, &exporter.row(&wait)).unwrap();
    }
    let (csv, json) = (String::from_utf8(csv).unwrap(), String::from_utf8(json).unwrap());
    assert_eq!((csv.lines().count(), json.lines().count()), (601, 600));
    assert!(!csv.contains('\u{1b}') && !json.contains('\u{1b}'));
    let rows: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (_, stacks) = crate::made::tables();
    for (i, row) in (0..).zip(&rows) {
        let wait = numbered(i, &stacks);
        assert_eq!(row.as_object().unwrap().len(), COLUMNS.len());
        assert_eq!(row["time_ns"], 3000 * i, "sorted by start time");
        assert_eq!(u128::from(row["off_ns"].as_u64().unwrap()), wait.off.as_nanos());
        assert_eq!(row["count"], wait.count);
        assert_eq!(row["path"].as_str(), wait.call.and_then(|call| call.path).as_deref());
    }
    assert_eq!(rows[0]["stack"], "main;load;read;vfs_read");
    assert_eq!(
        (&rows[0]["file"], &rows[0]["function"]),
        (&"/var/lib/demo.db".into(), &"load".into())
    );
    assert_eq!(
        (&rows[5]["cause"], &rows[5]["cause_tid"]),
        (&"holder's wait".into(), &101.into())
    );
    assert_eq!(
        (&rows[2]["waker"], &rows[1]["waker"]),
        (&"interrupt".into(), &"worker".into())
    );
    let futex = |row: &serde_json::Value| {
        (
            row["futex"].clone(),
            row["futex_file"].clone(),
            row["futex_offset"].clone(),
        )
    };
    let nothing = serde_json::Value::Null;
    assert_eq!(futex(&rows[1]), (nothing.clone(), nothing.clone(), nothing.clone()));
    assert_eq!(futex(&rows[8]), ("0x48".into(), nothing.clone(), nothing));
    assert_eq!(futex(&rows[16]), ("0x50".into(), "/var/lib/demo.db".into(), 16.into()));
}
