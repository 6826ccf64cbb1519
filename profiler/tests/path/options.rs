//! Options and messages of `ngmi path`, on a recording without surprises.

use serde_json::Value;

use crate::harness::Ngmi;
use crate::harness::skip::needs_capture;
use crate::run::{path, record};

#[test]
fn tables_fit_a_terminal_and_a_profile_has_the_same_path() {
    needs_capture!();
    let Some(run) = record("join", |_| None) else { return };
    let text = path(&run.outcome, &["--top", "5"]);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for title in [
        "by reason",
        "by thread",
        "by function",
        "the longest links of the chain",
    ] {
        assert!(text.contains(title), "{title}: {text}");
    }
    let csv = path(&run.outcome, &["--csv"]);
    let of_profile = Ngmi::subcommand("path")
        .arg(run.outcome.file("out.json.gz"))
        .arg("--csv");
    let of_profile = of_profile.run().expect_code(0).stdout.clone();
    let spans = |csv: &str| {
        let rows = csv.lines().skip(1);
        let first = |row: &str| row.split(',').take(5).collect::<Vec<_>>().join(",");
        rows.map(first).collect::<Vec<_>>()
    };
    assert_eq!(spans(&of_profile), spans(&csv));
}

#[test]
fn what_has_no_path_is_refused_with_a_reason() {
    needs_capture!();
    let Some(run) = record("join", |_| None) else { return };
    let refused = |args: &[&str], words: &[&str]| {
        let ngmi = Ngmi::subcommand("path").arg(run.outcome.file("log")).args(args);
        ngmi.run().expect_refusal(words);
    };
    refused(&["--thread", "nonsense"], &["no thread", "nonsense"]);
    refused(&["--from", "5000"], &["lived from", "--from"]);
    refused(&["--from", "2", "--to", "1"], &["--from is not before --to"]);
    refused(&["--from-marker", "nonsense"], &["no markers"]);
}

#[test]
fn check_and_diff_measure_the_same_path() {
    needs_capture!();
    let Some(run) = record("convoy", |_| None) else { return };
    let tid = run.window.tid.to_string();
    let report: Value = serde_json::from_str(&path(&run.outcome, &["--json"])).unwrap();
    let reasons = report["by_reason"].as_array().unwrap();
    let first = report["thread"]["tid"].as_u64().unwrap().to_string();
    assert_eq!(first, tid, "the window is of the first thread");
    let key = |row: &Value| format!("path_{}_ms", row["reason"].as_str().unwrap().replace('-', "_"));
    let limits: Vec<String> = reasons.iter().map(|row| format!("{} = 0\n", key(row))).collect();
    let file = run.outcome.file("budget.toml");
    std::fs::write(&file, format!("[total]\n{}", limits.concat())).unwrap();
    let log = run.outcome.file("log");
    let check = Ngmi::subcommand("check")
        .arg(&log)
        .arg("--budget")
        .arg(&file)
        .arg("--json");
    let judged: Value = serde_json::from_str(&check.run().expect_code(1).stdout).unwrap();
    let diff = Ngmi::subcommand("diff").arg(&log).arg(&log).arg("--json");
    let diff: Value = serde_json::from_str(&diff.run().expect_code(0).stdout).unwrap();
    for row in reasons {
        let metric = key(row).replace("_ms", "_ns");
        let of = |rows: &Value| {
            let found = rows.as_array().unwrap().iter().find(|one| one["metric"] == *metric);
            found.unwrap_or_else(|| panic!("{metric}: {rows}")).clone()
        };
        assert_eq!(of(&judged["rows"])["measured"], row["time_ns"], "{metric}");
        assert_eq!(of(&diff["rows"])["median_b"], row["time_ns"], "{metric}");
    }
}
