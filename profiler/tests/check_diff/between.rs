//! Metrics between markers: what began then, and nothing that is known only as a sum.

use std::path::Path;
use std::time::Duration;

use fixtures::log::START;
use profiler::event::{Attachment, AttachmentKind, Event};
use profiler::fact::{FoldedFaults, FoldedWaits};
use profiler::report::metrics::{By, Facts, Metric, Metrics};
use profiler::report::select::Span;

use crate::made::{Made, recording};
use crate::subcommand::{log_with, run_expecting};

const MS: u64 = 1_000_000;

fn within(made: &Made, from: u64, to: Option<u64>) -> Metrics {
    let mut facts = Facts::default();
    let tables = fact::FactSource::replay(&mut made.clone(), &mut facts).unwrap();
    let span = Span::new(Some(Duration::from_micros(from)), to.map(Duration::from_micros));
    Metrics::within(&tables, &facts, Some(span))
}

fn value_of(metrics: &Metrics, by: By, pattern: &str, key: &str) -> (u64, bool) {
    let (_, value) = metrics.sum(by, pattern, Metric::of_key(key).unwrap());
    (value.at_least, value.unknown.is_none())
}

#[test]
fn what_began_between_the_markers_counts() {
    let made = recording();
    let early = within(&made, 500, Some(25_000));
    for (by, pattern, key, value) in [
        (By::Total, "", "wall_ms", 24 * MS + MS / 2),
        (By::Total, "", "cpu_ms", 9 * MS),
        (By::Total, "", "faults", 2),
        (By::Total, "", "major_faults", 1),
        (By::Total, "", "relocated_pages", 0),
        (By::Total, "", "disk_wait_ms", 5 * MS),
        (By::Total, "", "bytes_read", 16384),
        (By::Total, "", "wasted_readahead_bytes", 8192),
        (By::File, "libdemo.so", "wasted_readahead_bytes", 8192),
        (By::File, "libdemo.so", "disk_wait_ms", 5 * MS),
        (By::Function, "load", "faults", 2),
        (By::Phase, "main", "faults", 2),
    ] {
        assert_eq!(value_of(&early, by, pattern, key), (value, true), "{pattern} {key}");
    }
    // Which read a section's pages are of is not kept.
    assert!(!value_of(&early, By::Section, ".text", "wasted_readahead_bytes").1);
    let start = within(&made, 0, Some(500));
    for by in [By::Total, By::File] {
        assert_eq!(value_of(&start, by, "libdemo.so", "relocated_pages"), (1, true));
    }
    let late = within(&made, 30_000, None);
    // The thread ends after 900 ms, and ran for 1 ms after its last sample.
    assert_eq!(value_of(&late, By::Total, "", "wall_ms"), (870 * MS, true));
    assert_eq!(value_of(&late, By::Total, "", "cpu_ms"), (MS, true));
    assert_eq!(value_of(&late, By::Total, "", "disk_wait_ms"), (2 * MS, true));
    assert_eq!(value_of(&late, By::Total, "", "wasted_readahead_bytes"), (0, true));
}

#[test]
fn everything_is_in_the_whole_time() {
    let made = recording();
    let (all, part) = (made.metrics(), within(&made, 0, None));
    for metric in Metric::all() {
        let by = [By::Total, By::Phase, By::File, By::Function, By::Thread];
        for by in by.into_iter().filter(|by| by.has_metric(metric)) {
            assert_eq!(all.sum(by, "*", metric), part.sum(by, "*", metric), "{metric:?}");
        }
    }
}

#[test]
fn sums_have_no_times() {
    let mut made = recording();
    made.tables.recording.folded_faults = vec![FoldedFaults {
        thread: fact::ThreadId(0),
        class: fact::fault::FaultClass::Cow,
        major: false,
        faults: 3,
        pages_read: 0,
        time: 30,
    }];
    made.tables.recording.folded_waits = vec![FoldedWaits {
        thread: fact::ThreadId(0),
        reason: fact::WaitReason::Disk,
        waits: 7,
        off: MS,
        queued: 0,
        longest: MS,
    }];
    assert_eq!(value_of(&made.metrics(), By::Total, "", "faults"), (9, true));
    let part = within(&made, 0, Some(25_000));
    for key in ["faults", "disk_wait_ms"] {
        let unknown = part.sum(By::Total, "", Metric::of_key(key).unwrap()).1.unknown.unwrap();
        assert!(unknown.contains("--keep-events"), "{unknown}");
    }
}

/// A log with a read each 10 µs, and with markers of the program.
fn marked(path: &Path, reads: u64, markers: &str) {
    let marker = Event::Attachment(Attachment {
        kind: AttachmentKind::Markers,
        pid: 7,
        path: b"/tmp/marker-7.txt".to_vec(),
        bytes: markers.as_bytes().to_vec(),
    });
    log_with(path, reads, &[marker]);
}

#[test]
fn the_subcommand_finds_the_markers_of_each_recording() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let at = |us: u64| START + us * 1000;
    let line = |from, to, name| format!("{} {} {name}\n", at(from), at(to));
    // Reads 10 to 30, and in the baseline 10 to 19.
    marked(
        &place.join("new"),
        100,
        &(line(100, 150, "load") + &line(200, 305, "ready")),
    );
    marked(
        &place.join("old"),
        100,
        &(line(100, 150, "load") + &line(160, 195, "ready")),
    );
    std::fs::write(place.join("b.toml"), format!("[total]\nbytes_read = {}\n", 21 * 4096)).unwrap();
    let between = ["--from-marker", "load", "--to-marker", "re*"];
    let check = |code, more: &[&str]| run_expecting(place, code, &[&["check", "new"], more].concat());
    let budget = ["--budget", "b.toml"];
    check(1, &budget);
    check(0, &[&budget[..], &between].concat());
    let rows = |more: &[&str]| {
        let (json, _) = check(
            1,
            &[&budget[..], &between, &["--json", "--against", "old"], more].concat(),
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["rows"].clone()
    };
    let row = rows(&["--allow", "0"])[1].clone();
    assert_eq!(
        (&row["measured"], &row["limit"]),
        (&(21 * 4096).into(), &(10 * 4096).into())
    );
    // A budget can name windows of its own.
    let window = |limit: u64, name: &str| {
        let text = format!("[total]\nbytes_read = 409600\n[markers.\"{name}\"]\nbytes_read = {limit}\nwall_ms = 1\n");
        std::fs::write(place.join("w.toml"), text).unwrap();
    };
    window(21 * 4096, "load..ready");
    assert_eq!(check(0, &["--budget", "w.toml"]).0, "limits: 0 over, 3 within\n");
    window(21 * 4096 - 1, "load..re*");
    assert!(check(1, &["--budget", "w.toml"]).0.contains("\nload..re*: bytes read "));
    window(0, "never..");
    assert!(
        check(2, &["--budget", "w.toml"])
            .1
            .contains("no marker matches `never` of [markers.\"never..\"]; there are: `ready`, `load`")
    );
    window(0, "");
    assert!(
        check(2, &["--budget", "w.toml"])
            .1
            .contains("line 3: `` needs a marker or two")
    );
    let (_, error) = check(2, &[&budget[..], &["--from-marker", "lod"]].concat());
    assert!(
        error.contains("new: ") && error.contains("`lod`; similar: `load`"),
        "{error}"
    );
}

#[test]
fn a_span_is_that_of_the_longest_marker() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let line = |from: u64, to: u64, name| format!("{} {} {name}\n", START + from * 1000, START + to * 1000);
    let markers = line(20, 40, "load") + &line(100, 305, "load") + &line(500, 510, "paint") + &line(600, 600, "now");
    marked(&place.join("new"), 100, &markers);
    // Reads 10 to 30.
    let budget = |limit: u64, table: &str| {
        std::fs::write(place.join("b.toml"), format!("[{table}]\nbytes_read = {limit}\n")).unwrap();
    };
    let check =
        |code, more: &[&str]| run_expecting(place, code, &[&["check", "new", "--budget", "b.toml"], more].concat());
    for (limit, code) in [(21 * 4096, 0), (21 * 4096 - 1, 1)] {
        budget(limit, "total");
        let (_, note) = check(code, &["--span", "lo*"]);
        let expected = "new: --span `lo*`: the longest of 2 matching markers, from 100 µs to 305 µs";
        assert!(note.contains(expected), "{note}");
        budget(limit, "markers.\"load\"");
        let (_, note) = check(code, &[]);
        assert!(
            note.contains("`load` of [markers.\"load\"]: the longest of 2"),
            "{note}"
        );
    }
    budget(0, "total");
    let (_, error) = check(2, &["--span", "laod"]);
    assert!(error.contains("--span `laod`; similar: `load`"), "{error}");
    let (_, error) = check(2, &["--span", "now"]);
    assert!(error.contains("moments without a duration"), "{error}");
    let (_, error) = check(2, &["--span", "load", "--to-marker", "load"]);
    assert!(error.contains("cannot be used with"), "{error}");
    let lines = |options: &[&str]| {
        let (rows, note) = run_expecting(place, 0, &[&["io", "new", "--csv"], options].concat());
        (rows.lines().count(), note)
    };
    let (rows, note) = lines(&["--span", "load"]);
    let (between, _) = lines(&["--from", "100us", "--to", "305us"]);
    assert_eq!(rows, between);
    assert!(note.contains("--span `load`: the longest of 2"), "{note}");
    let (paint, note) = lines(&["--span", "paint"]);
    assert!(paint < rows && note.is_empty(), "{note}");
}
