//! The critical path as rows and as sums: those of `ngmi path`.

use std::collections::BTreeMap;

use super::{exported, json, ngmi, profile};

/// Lines of folded stacks with their weights.
fn folded(text: &str) -> Vec<(Vec<&str>, u64)> {
    let line = |line| {
        let (stack, weight): (&str, &str) = str::rsplit_once(line, ' ').unwrap();
        (stack.split(';').collect(), weight.parse().unwrap())
    };
    text.lines().map(line).collect()
}

#[test]
fn folded_stacks_add_up_to_the_path_by_thread_and_reason() {
    let (_folder, input) = profile();
    let report = json("path", &input);
    let file = exported(&input, &["--format=folded", "--table=path"], "path.folded");
    let text = std::fs::read_to_string(file).unwrap();
    let stacks = folded(&text);
    let sum: u64 = stacks.iter().map(|(_, weight)| weight).sum();
    assert!(sum > 0);
    assert_eq!(report["totals"]["time_ns"], sum);
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for (frames, weight) in &stacks {
        let last = frames[frames.len() - 1];
        let name = last.strip_prefix('[').and_then(|last| last.strip_suffix(']'));
        *reasons.entry(name.unwrap_or("cpu").to_owned()).or_default() += weight;
    }
    for row in report["by_reason"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["reason"] != "cpu")
    {
        let reason = row["reason"].as_str().unwrap();
        assert_eq!(row["time_ns"], reasons[reason], "{reason}: {text}");
    }
}

#[test]
fn another_threads_path_can_be_exported() {
    let (_folder, input) = profile();
    let thread = ngmi(&["path", "--thread", "101", "--json"], &input);
    let report: serde_json::Value = serde_json::from_slice(&thread.stdout).unwrap();
    let of_thread = ["--format=folded", "--table=path", "--thread=101"];
    let text = std::fs::read_to_string(exported(&input, &of_thread, "path.folded")).unwrap();
    let sum: u64 = folded(&text).iter().map(|(_, weight)| weight).sum();
    assert_eq!(report["totals"]["time_ns"], sum);
    let rows = exported(&input, &["--format=parquet", "--table=path"], "path.parquet");
    let bytes = std::fs::read(rows).unwrap();
    for column in ["duration_ns", "held_up_tid", "waker_tid"] {
        let has = bytes.windows(column.len()).any(|part| part == column.as_bytes());
        assert!(has, "{column}");
    }
}
