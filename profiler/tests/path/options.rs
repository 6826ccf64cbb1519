//! Options and messages of `ngmi path`, on a recording without surprises.

use std::collections::BTreeMap;

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
    refused(&["--from", "5000"], &["lived from", "another time range"]);
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

#[test]
fn the_profile_has_a_track_of_the_path() {
    needs_capture!();
    let Some(run) = record("chain", |_| None) else { return };
    let report: Value = serde_json::from_str(&path(&run.outcome, &["--json"])).unwrap();
    let packed = std::fs::File::open(run.outcome.file("out.json.gz")).unwrap();
    let profile: Value = serde_json::from_reader(flate2::read::GzDecoder::new(packed)).unwrap();
    let threads = profile["threads"].as_array().unwrap().iter();
    let tracks: Vec<&Value> = threads
        .filter(|thread| thread["ngmiCompanion"].get("path").is_some())
        .collect();
    assert_eq!(tracks.len(), 1);
    let samples = &tracks[0]["samples"];
    let rows = samples["stack"].as_array().unwrap().iter();
    let rows = rows.zip(samples["weight"].as_array().unwrap());
    let mut of_threads: BTreeMap<u64, u64> = BTreeMap::new();
    for (stack, weight) in rows.filter(|(stack, _)| !stack.is_null()) {
        let root = root(&profile, usize::try_from(stack.as_u64().unwrap()).unwrap());
        let (_, tid) = root.rsplit_once('/').unwrap();
        let tid = tid.trim_end_matches(')').parse().unwrap();
        let weight = weight.as_f64().unwrap() * 1e6;
        assert!(weight >= 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is not negative"
        )]
        let weight = weight.round() as u64;
        *of_threads.entry(tid).or_default() += weight;
    }
    for row in report["by_thread"].as_array().unwrap() {
        let tid = row["tid"].as_u64().unwrap();
        assert_eq!(row["time_ns"].as_u64(), of_threads.remove(&tid), "{row}");
    }
    assert_eq!(of_threads, BTreeMap::new());
}

/// The outermost function of a stack.
fn root(profile: &Value, mut row: usize) -> &str {
    let shared = &profile["shared"];
    let at = |column: &Value, row: usize| usize::try_from(column[row].as_u64().unwrap()).unwrap();
    while at(&shared["stackTable"]["prefixOffset"], row) > 0 {
        row -= at(&shared["stackTable"]["prefixOffset"], row);
    }
    let frame = at(&shared["stackTable"]["frame"], row);
    let name = at(&shared["funcTable"]["name"], at(&shared["frameTable"]["func"], frame));
    shared["stringArray"][name].as_str().unwrap()
}
