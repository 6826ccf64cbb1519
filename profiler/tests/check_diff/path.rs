//! Time on critical paths as metrics: whose it is, when, and what is said if it is unknown.

use std::path::Path;
use std::time::Duration;

use profiler::fact::reduce::budget::{Budget as ProfileBudget, Collector};
use profiler::fact::wait::WakerFact;
use profiler::fact::{FactSource as _, FoldedWaits, ThreadId, WaitFact, WaitReason};
use profiler::report::check::judge::Row;
use profiler::report::check::{Budget, judge};
use profiler::report::diff::{Diff, text};
use profiler::report::metrics::{By, Facts, Metric, Metrics, Paths, Runs};
use profiler::report::path::PathFacts;
use profiler::report::select::Span;

use crate::made::{Made, at, recording, wait};
use crate::subcommand::run_expecting;

const MS: u64 = 1_000_000;

/// The worker ends the first thread's poll from 200 to 300 ms, of which it waits for a lock until `lock` ms.
fn made(lock: u64) -> Made {
    let mut made = recording();
    made.waits[1].waker = Some(WakerFact {
        time: at(300_000),
        pid: 100,
        tid: 101,
        thread: Some(ThreadId(1)),
        stack: None,
        by_interrupt: Some(false),
    });
    made.waits.push(WaitFact {
        thread: ThreadId(1),
        ..wait(150_000, (lock - 150) * 1000, WaitReason::Lock)
    });
    made
}

fn followed(made: &Made, most: usize, span: Option<Span>, threads: &[&str]) -> Metrics {
    let mut facts = Facts::default();
    facts.path = Some(PathFacts::without_samples(most));
    let tables = made.clone().replay(&mut facts).unwrap();
    let paths = Paths::new(&tables, facts.path.take().unwrap());
    Metrics::within(&tables, &facts, span).with_paths(&tables, &paths, span, threads.iter().copied())
}

/// The metrics of a path that are not zero.
fn path(metrics: &Metrics, by: By, pattern: &str) -> Vec<(String, u64)> {
    let values = Metric::of_path().map(|metric| (metric.key(), metrics.sum(by, pattern, metric).1));
    let known = values.map(|(key, value)| (key, value.exact().unwrap()));
    known.filter(|(_, value)| *value > 0).collect()
}

fn expected(values: &[(&str, u64)]) -> Vec<(String, u64)> {
    values.iter().map(|(key, ms)| ((*key).to_owned(), ms * MS)).collect()
}

#[test]
fn totals_are_the_path_of_the_first_thread() {
    let metrics = followed(&made(250), usize::MAX, None, &["worker", "de?o/worker", "absent"]);
    let whole = [
        ("path_cpu_ms", 843),
        ("path_fault_ms", 5),
        ("path_disk_ms", 2),
        ("path_lock_ms", 50),
    ];
    assert_eq!(path(&metrics, By::Total, ""), expected(&whole));
    let sum: u64 = whole.iter().map(|(_, ms)| ms * MS).sum();
    assert_eq!(metrics.sum(By::Total, "", Metric::Wall).1.exact(), Some(sum));
    for pattern in ["worker", "de?o/worker"] {
        let of_worker = [("path_cpu_ms", 900), ("path_lock_ms", 100)];
        assert_eq!(path(&metrics, By::Thread, pattern), expected(&of_worker));
    }
    let cpu = Metric::of_key("path_cpu_ms").unwrap();
    assert_eq!(metrics.sum(By::Thread, "absent", cpu).0, 0);
}

#[test]
fn a_path_between_markers_ends_at_them() {
    let ms = |ms| Some(Duration::from_millis(ms));
    let span = Some(Span::new(ms(210), ms(260)));
    let metrics = followed(&made(250), usize::MAX, span, &["worker"]);
    let between = expected(&[("path_cpu_ms", 10), ("path_lock_ms", 40)]);
    assert_eq!(path(&metrics, By::Total, ""), between);
    assert_eq!(path(&metrics, By::Thread, "worker"), between);
    let later = followed(&made(250), usize::MAX, Some(Span::new(ms(950), None)), &["worker"]);
    assert_eq!(path(&later, By::Total, ""), [], "the first thread has ended");
    assert_eq!(path(&later, By::Thread, "worker"), expected(&[("path_cpu_ms", 50)]));
}

#[test]
fn an_incomplete_path_is_unknown_with_a_reason() {
    let why = |metrics: &Metrics, by| metrics.unknown(by, Metric::of_key("path_lock_ms").unwrap());
    let mut folded = made(250);
    folded.tables.recording.folded_waits = vec![FoldedWaits {
        thread: ThreadId(1),
        reason: WaitReason::Lock,
        waits: 9,
        off: MS,
        queued: 0,
        longest: 5,
    }];
    let mut unseen = made(250);
    unseen.waits.clear();
    unseen.tables.recording.waits_seen = 0;
    unseen.tables.recording.hooks.retain(|hook| hook.noun != "switch");
    for (metrics, part) in [
        (followed(&folded, usize::MAX, None, &[]), "--keep-events"),
        (followed(&unseen, usize::MAX, None, &[]), "--off-cpu off"),
        (followed(&made(250), 2, None, &[]), "too many waits (2 beyond"),
        (made(250).metrics(), "not followed"),
    ] {
        for by in [By::Total, By::Thread] {
            let why = why(&metrics, by).unwrap();
            assert!(why.contains(part), "{why}");
        }
    }
    assert!(why(&made(250).metrics(), By::File).unwrap().contains("total, thread"));
}

#[test]
fn a_budget_asks_for_the_paths_that_it_limits() {
    let paths = |text| Budget::parse(text).unwrap().paths();
    assert_eq!(paths("[total]\nfaults = 1"), None);
    let of = paths("[total]\npath_cpu_ms = 1\n[thread.\"Gecko*\"]\npath_lock_ms = 2\n[thread.a]\ncpu_ms = 3");
    assert_eq!(of.unwrap().into_iter().collect::<Vec<_>>(), ["Gecko*"]);
    let errors = Budget::parse("[function.main]\npath_cpu_ms = 1").unwrap_err();
    assert!(errors[0].to_string().contains("[total] or [thread]"), "{errors:?}");
    let budget = "[total]\npath_lock_ms = 49\npath_cpu_ms = 843\n[thread.worker]\npath_lock_ms = 100\n\
                  [thread.absent]\npath_lock_ms = 1";
    let runs = Runs {
        all: vec![followed(&made(250), usize::MAX, None, &["worker", "absent"])],
    };
    let judgement = judge(&Budget::parse(budget).unwrap(), &runs, None);
    let over: Vec<_> = judgement.over().map(Row::what).collect();
    assert_eq!(over, ["path lock"]);
    let unmentioned: Vec<_> = judgement.unmentioned().map(Row::what).collect();
    assert_eq!(unmentioned, ["thread absent: path lock"]);
}

#[test]
fn a_comparison_shows_the_path_by_reason_and_its_noise() {
    let set = |locks: [u64; 5]| Runs {
        all: locks.map(|lock| followed(&made(lock), usize::MAX, None, &[])).into(),
    };
    let diff = Diff::new(&set([240, 241, 242, 243, 244]), &set([280, 281, 282, 283, 284]));
    let changed: Vec<_> = diff.path().map(|row| (row.metric.key(), row.medians())).collect();
    let rows = [
        ("path_cpu_ms".to_owned(), (851 * MS, 811 * MS)),
        ("path_lock_ms".to_owned(), (42 * MS, 82 * MS)),
        ("path_fault_ms".to_owned(), (5 * MS, 5 * MS)),
        ("path_disk_ms".to_owned(), (2 * MS, 2 * MS)),
    ];
    let mut sorted = changed.clone();
    sorted.sort();
    let mut expected = rows.to_vec();
    expected.sort();
    assert_eq!(sorted, expected);
    assert!(diff.by(By::Total).all(|row| !row.metric.is_of_path()));
    assert_eq!(diff.gaps, []);
    let mut out = Vec::new();
    text::write(&mut out, &diff, ("old", "new"), 3).unwrap();
    let shown = String::from_utf8(out)
        .unwrap()
        .replace("\u{1b}[1m", "")
        .replace("\u{1b}[0m", "");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let section = shown
        .split("\ncritical path")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let line = |name: &str| section.lines().find(|line| line.contains(name)).unwrap();
    assert!(
        line("lock").starts_with("  lock ") && line("lock").ends_with("+40.0 ms"),
        "{section}"
    );
    assert!(line("cpu").ends_with("-40.0 ms"), "{section}");
    assert!(line("disk").starts_with("~ "), "{section}");
}

fn write_profile(path: &Path, made: &Made) {
    let mut collector = Collector::new(ProfileBudget::default());
    let mut tables = made.clone().replay(&mut collector).unwrap();
    let collected = collector.finish(&mut tables);
    let mut out = Vec::new();
    profile::write(&tables, &collected, &mut out).unwrap();
    std::fs::write(path, out).unwrap();
}

#[test]
fn the_subcommands_follow_the_path_of_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    write_profile(&place.join("a.json"), &made(250));
    write_profile(&place.join("b.json"), &made(280));
    let check = |code, budget: &str, more: &[&str]| {
        std::fs::write(place.join("b.toml"), budget).unwrap();
        run_expecting(
            place,
            code,
            &[&["check", "a.json", "--budget", "b.toml"], more].concat(),
        )
        .0
    };
    check(
        0,
        "[total]\npath_lock_ms = 50\n[thread.worker]\npath_lock_ms = 100",
        &[],
    );
    let out = check(
        1,
        "[total]\npath_lock_ms = 49.9\n[thread.worker]\npath_lock_ms = 99",
        &[],
    );
    assert!(
        out.contains("path lock") && out.contains("thread worker: path lock"),
        "{out}"
    );
    let json = check(0, "[total]\npath_cpu_ms = 843", &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"][0]["metric"], "path_cpu_ns");
    assert_eq!(json["rows"][0]["measured"], 843 * MS);
    let (out, _) = run_expecting(place, 0, &["diff", "a.json", "b.json"]);
    let section = out.split("\ncritical path").nth(1).unwrap();
    assert!(
        section
            .lines()
            .any(|line| line.contains("lock") && line.ends_with("+30.0 ms")),
        "{out}"
    );
}
