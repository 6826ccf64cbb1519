//! A recording's report of its own cost.

use serde_json::Value;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome, said};

/// The cost in the summary of a recording with `--json`.
fn account(outcome: &Outcome) -> Value {
    outcome.expect_code(0);
    let json = outcome.stdout.find("\n{").map_or(0, |line| line + 1);
    let summary: Value = serde_json::from_str(&outcome.stdout[json..]).unwrap();
    summary["cost"].clone()
}

/// Number of runs of an eBPF program.
fn runs(cost: &Value, program: &str) -> u64 {
    let programs = cost["programs"]["programs"].as_array().unwrap();
    let of = programs.iter().find(|of| of["name"] == program);
    of.map_or(0, |of| of["runs"].as_u64().unwrap())
}

#[test]
fn the_kernels_count_is_reported_exactly_on_request() {
    needs_capture!();
    let outcome = Ngmi::record()
        .args(["--json", "--self-account", "--keep-events", "log"])
        .program(Oracle::c("reliability/handing"), ["20000"])
        .run();
    let cost = account(&outcome);
    assert_eq!(cost["programs_exact"], true, "{cost}");
    // The kernel counted this many switches of these two threads; others switched too.
    let switches = said(&outcome.stdout, "switches");
    assert!(switches >= 20_000, "{}", outcome.stdout);
    assert!(
        runs(&cost, "sched_switch") >= switches,
        "{switches} switches of the program alone: {cost}"
    );
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{cost}"));
    assert!(number(&cost["programs_ns"]) > 0, "{cost}");
    let wall = number(&cost["programs"]["of_ns"]);
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(number(&cost["programs_ns"]) < wall * cpus, "{cost}");
    for process in ["capture", "record"] {
        assert!(number(&cost[process]["peak_rss_bytes"]) > 1 << 20, "{process}: {cost}");
        assert!(number(&cost[process]["before_ns"]) > 0, "{process}: {cost}");
    }
    assert!(number(&cost["conversion_ns"]) > 0, "{cost}");
    let log = std::fs::metadata(outcome.file("log")).unwrap().len();
    let written = number(&cost["log_bytes"]);
    assert!(0 < written && written <= log, "{written} of {log}");
    let ring = &cost["ring"];
    assert!(
        (1..=number(&ring["bytes"])).contains(&number(&ring["peak_bytes"])),
        "{cost}"
    );
    kept(&outcome, &cost);
}

/// The kept log reports the same as the recording did, except the cost of building the profile.
fn kept(outcome: &Outcome, cost: &Value) {
    let again = Ngmi::subcommand("convert")
        .args(["--json", "-o", "out.json.gz"])
        .arg(outcome.file("log"))
        .run();
    let again = account(&again);
    for part in [
        "capture",
        "record",
        "programs",
        "ring",
        "log_bytes",
        "recorded_cpu_ns",
        "limited",
    ] {
        assert_eq!(cost[part], again[part], "{part}");
    }
}

#[test]
fn a_longer_recording_is_extrapolated_and_marked() {
    needs_capture!();
    let outcome = Ngmi::record().arg("--json").program(Oracle::c("burn"), ["2500"]).run();
    let cost = account(&outcome);
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{cost}"));
    let programs = &cost["programs"];
    let (counted, of) = (number(&programs["counted_ns"]), number(&programs["of_ns"]));
    assert!(of >= 2_500_000_000 && 500_000_000 <= counted && counted < of, "{cost}");
    assert_eq!(cost["programs_exact"], false);
    assert!(number(&cost["programs_ns"]) > 0 && runs(&cost, "sample") > 0, "{cost}");
}
