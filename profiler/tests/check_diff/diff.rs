//! Comparisons: changes are found by name, and noise is not reported as a change.

use crate::made::{LOAD, MAIN, Made, fault, recording};
use crate::subcommand::{OTHERS, log, run_expecting};
use profiler::fact::fault::FaultClass;
use profiler::report::diff::{Diff, Verdict, text};
use profiler::report::metrics::{By, Metric, Runs};

/// A run that differs from the others by a few faults of noise.
fn run(seed: u64, storm: u64) -> Made {
    let mut made = recording();
    let noise = (0..100 + seed * 7 % 5).map(|i| fault(100_000 + 20 * i, FaultClass::FileRead, Some(2), LOAD));
    made.faults.extend(noise);
    made.faults
        .extend((0..storm).map(|i| fault(300_000 + 20 * i, FaultClass::Cow, None, MAIN)));
    made
}

fn set(seeds: std::ops::Range<u64>, storm: u64) -> Runs {
    Runs {
        all: seeds.map(|seed| run(seed, storm).metrics()).collect(),
    }
}

fn verdict(diff: &Diff, name: &str, metric: Metric) -> Verdict {
    let found = diff
        .rows
        .iter()
        .find(|row| row.place.name() == name && row.metric == metric);
    found.unwrap_or_else(|| panic!("{name}")).verdict
}

#[test]
fn a_storm_is_found_by_name_and_noise_is_not() {
    let diff = Diff::new(&set(0..5, 0), &set(5..10, 300));
    let storm = diff.by(By::Function).next().unwrap();
    assert_eq!(
        (storm.place.name(), storm.verdict),
        ("main (demo)".into(), Verdict::Changed)
    );
    let cow = diff
        .by(By::Function)
        .find(|row| row.metric == Metric::CowPages)
        .unwrap();
    assert_eq!(
        (cow.place.name().as_str(), cow.medians(), cow.verdict),
        ("main (demo)", (2, 302), Verdict::Changed)
    );
    assert_eq!(verdict(&diff, "load (demo)", Metric::Faults), Verdict::Noise);
    assert_eq!(verdict(&diff, "total", Metric::MajorFaults), Verdict::Noise);
    assert_eq!(verdict(&diff, "total", Metric::CowPages), Verdict::Changed);
    let mut out = Vec::new();
    text::write(&mut out, &diff, ("old", "new"), 3).unwrap();
    let shown = String::from_utf8(out)
        .unwrap()
        .replace("\u{1b}[1m", "")
        .replace("\u{1b}[0m", "");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    let functions = lines.iter().position(|line| line.starts_with("by function")).unwrap();
    assert!(lines[functions + 1].starts_with("  main "), "{shown}");
    assert!(lines.iter().any(|line| line.starts_with("~ ")), "{shown}");
}

#[test]
fn nothing_changed_between_runs_of_the_same() {
    let diff = Diff::new(&set(0..6, 50), &set(6..12, 50));
    assert!(diff.has_enough_runs);
    assert_eq!(diff.changed().count(), 0);
}

#[test]
fn few_runs_are_inconclusive() {
    let diff = Diff::new(&set(0..1, 0), &set(5..6, 300));
    assert!(!diff.has_enough_runs && diff.rows.iter().all(|row| row.verdict == Verdict::TooFewRuns));
    assert_eq!(diff.by(By::Function).next().unwrap().place.name(), "main (demo)");
    assert!(!Diff::new(&set(0..3, 0), &set(3..6, 300)).has_enough_runs);
    let four = Diff::new(&set(0..4, 0), &set(4..8, 300));
    let storm = four
        .by(By::Function)
        .find(|row| row.metric == Metric::CowPages)
        .unwrap();
    assert!(four.has_enough_runs && storm.verdict != Verdict::Noise, "{storm:?}");
}

#[test]
fn the_subcommand_compares_files_sets_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    for (name, reads) in [
        ("a.1", 50),
        ("a.2", 50),
        ("a.3", 51),
        ("a.4", 50),
        ("b.1", 900),
        ("b.2", 901),
        ("b.3", 900),
        ("b.4", 902),
    ] {
        log(&place.join(name), reads);
    }
    let (out, _) = run_expecting(place, 0, &["diff", "a.1", "b.1"]);
    assert!(
        out.contains("one run each: not enough to distinguish") && out.contains("bytes read"),
        "{out}"
    );
    let sets = ["diff", "a.1", "a.2", "a.3", "a.4", "--to", "b.1", "b.2", "b.3", "b.4"];
    let (json, _) = run_expecting(place, 0, &[&sets[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let read = rows
        .iter()
        .find(|row| row["by"] == "total" && row["metric"] == "bytes_read")
        .unwrap();
    assert_eq!(
        (&read["median_a"], &read["median_b"]),
        (&204_800.into(), &3_688_448.into())
    );
    assert_eq!(read["verdict"], "changed");
    assert!(
        json["gaps"]
            .as_array()
            .unwrap()
            .iter()
            .any(|gap| gap["metric"] == "faults")
    );
    for (arguments, part) in [
        (&["diff", "a.1"][..], "name a second recording"),
        (&["diff", "a.1", "a.2", "b.1"], "`--to` between"),
        (&["diff", "a.1", "none"], "cannot read none"),
    ] {
        assert!(run_expecting(place, 1, arguments).1.contains(part));
    }
}

#[test]
fn the_difference_is_a_profile_with_negative_weights() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    std::fs::write(place.join("a.json"), OTHERS).unwrap();
    // `hot` is faster by 1 ms, `main` is slower by 2 ms, at other addresses.
    let after = OTHERS
        .replace("[1500,500]", "[500,2500]")
        .replace("[16,32]", "[160,320]");
    std::fs::write(place.join("b.json"), after).unwrap();
    run_expecting(
        place,
        0,
        &["diff", "a.json", "b.json", "--profile", "difference.json.gz"],
    );
    run_expecting(place, 0, &["lint", "difference.json.gz"]);
    let packed = std::fs::File::open(place.join("difference.json.gz")).unwrap();
    let profile: serde_json::Value = serde_json::from_reader(flate2::read::GzDecoder::new(packed)).unwrap();
    let samples = &profile["threads"][0]["samples"];
    let mut weights: Vec<f64> = samples["weight"]
        .as_array()
        .unwrap()
        .iter()
        .map(|weight| weight.as_f64().unwrap())
        .collect();
    weights.sort_by(f64::total_cmp);
    weights.retain(|weight| *weight != 0.0);
    assert_eq!(
        (weights, samples["weightType"].as_str().unwrap()),
        (vec![-1.0, 2.0], "tracing-ms")
    );
    assert_eq!(samples["length"], samples["weight"].as_array().unwrap().len());
}
