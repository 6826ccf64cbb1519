//! Checking metrics against a budget: which are exceeded, unknown or not mentioned, and what CI
//! gets to see.

use crate::made::{Made, fault, recording};
use profiler::fact::fault::FaultClass;
use profiler::report::check::judge::{Row, Verdict};
use profiler::report::check::{Budget, Judgement, github, judge, junit, text};
use profiler::report::metrics::Runs;

fn runs(made: &[&Made]) -> Runs {
    Runs {
        all: made.iter().map(|made| made.metrics()).collect(),
    }
}

fn judged(budget: &str, made: &Made, baseline: Option<&Made>) -> Judgement {
    let baseline = baseline.map(|made| runs(&[made]));
    judge(&Budget::parse(budget).unwrap(), &runs(&[made]), baseline.as_ref())
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The kind of storm that a person would look for: 300 copies in `main`.
fn storm() -> Made {
    let mut made = recording();
    let copies = (0..300).map(|i| fault(100_000 + 20 * i, FaultClass::Cow, None, crate::made::MAIN));
    made.faults.extend(copies);
    made
}

const BUDGET: &str = "[total]\nfaults = 6\ncow_pages = 2\nbytes_read = 20000\nwall_ms = 1000\n\n\
                      [file.\"libdemo.so\"]\nwasted_readahead_bytes = 8191\n\n[function.main]\ncow_pages = 10\n\n[file.\"lost.so\"]\nfaults = 3\n";

fn verdict<'a>(judgement: &'a Judgement, what: &str) -> &'a Verdict {
    let found = judgement.rows.iter().find(|row| row.what() == what);
    &found.unwrap_or_else(|| panic!("{what}")).verdict
}

#[test]
fn a_metric_exceeds_its_limit_by_one() {
    let judgement = judged(BUDGET, &recording(), None);
    for (what, expected) in [
        ("faults", Verdict::Within),
        ("cow pages", Verdict::Over(1)),
        ("bytes read", Verdict::Within),
        ("wall", Verdict::Within),
        ("file libdemo.so: wasted readahead", Verdict::Over(1)),
        ("function main: cow pages", Verdict::Within),
        ("file lost.so: faults", Verdict::Unmentioned),
    ] {
        assert_eq!(verdict(&judgement, what), &expected, "{what}");
    }
}

#[test]
fn the_storm_is_in_the_first_lines() {
    let judgement = judged(BUDGET, &storm(), None);
    let shown = written(|out| text::write(out, &judgement));
    let plain = shown
        .replace("\u{1b}[1m", "")
        .replace("\u{1b}[0m", "")
        .replace("\u{1b}[33m", "");
    let lines: Vec<&str> = plain.lines().collect();
    assert!(
        lines[1].starts_with("cow pages") && lines[1].contains("303") && lines[1].ends_with("301"),
        "{plain}"
    );
    assert!(plain.contains("\nfunction main: cow pages"), "{plain}");
    assert!(
        plain.contains("no file is called `lost.so` (line 14 of the budget)"),
        "{plain}"
    );
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{plain}");
    assert_eq!(*lines.last().unwrap(), "limits: 4 over, 3 within");
}

#[test]
fn an_unknown_metric_fails_only_if_its_known_part_does() {
    let mut made = recording();
    made.tables.recording.folded_requests = vec![fact::FoldedRequests {
        device: fact::DeviceId(0),
        operation: fact::request::Operation::Read,
        requests: 1,
        bytes: 1,
        time: 1,
    }];
    let judgement = judged(
        "[total]\nbytes_read = 20000\n[function.load]\nbytes_read = 100",
        &made,
        None,
    );
    assert!(matches!(verdict(&judgement, "bytes read"), Verdict::Unknown(why) if why.contains("--keep-events")));
    assert_eq!(verdict(&judgement, "function load: bytes read"), &Verdict::Over(16284));
}

#[test]
fn a_baseline_allows_a_little_more() {
    let judgement = judged(
        "[total]\nfaults = {}\n[function.main]\ncow_pages = { plus = 300 }",
        &storm(),
        Some(&recording()),
    );
    assert_eq!(verdict(&judgement, "faults"), &Verdict::Over(300), "6 and 5 % are 6");
    assert_eq!(verdict(&judgement, "function main: cow pages"), &Verdict::Within);
    let totals = judge(&Budget::of_totals(), &runs(&[&recording()]), Some(&runs(&[&storm()])));
    assert_eq!(
        (totals.rows.len(), totals.over().count(), totals.unknown().count()),
        (7, 0, 0)
    );
    let more = judged(
        "[allow]\npercent = 6000\n[total]\nfaults = {}",
        &storm(),
        Some(&recording()),
    );
    assert_eq!(more.over().count(), 0);
}

#[test]
fn the_median_of_several_runs_counts() {
    let budget = Budget::parse("[total]\nfaults = 100").unwrap();
    let (calm, storm) = (recording(), storm());
    let over = |made: &[&Made]| judge(&budget, &runs(made), None).over().count();
    assert_eq!([over(&[&calm, &storm, &calm]), over(&[&storm, &calm, &storm])], [0, 1]);
}

#[test]
fn each_row_is_reported_to_ci_once() {
    let judgement = judged(BUDGET, &storm(), None);
    let annotations = written(|out| github::write(out, &judgement, Some("ci/a,b.toml")));
    let lines: Vec<&str> = annotations.lines().collect();
    assert_eq!(lines.len(), 5, "{annotations}");
    assert_eq!(
        lines[0],
        "::error file=ci/a%2Cb.toml,line=2,title=ngmi check::faults: 306, limit 6 (over by 300)"
    );
    assert!(
        lines[4].starts_with("::warning file=ci/a%2Cb.toml,line=14,"),
        "{annotations}"
    );
    let document = written(|out| junit::write(out, &judgement));
    assert_eq!(document.matches("<testcase ").count(), judgement.rows.len());
    assert_eq!(document.matches("<failure ").count(), 4);
    assert!(
        document.contains("tests=\"7\" failures=\"4\" errors=\"0\""),
        "{document}"
    );
    let json = written(|out| report::export::json(out, &judgement));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["over"], &json["rows"][0]["metric"]),
        (&4.into(), &"faults".into())
    );
    let row: &Row = &judgement.rows[0];
    assert_eq!((row.limit, row.measured), (6, 306));
}
