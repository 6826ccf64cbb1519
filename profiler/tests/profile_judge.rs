//! The Firefox Profiler's own code loads our profiles and counts what we count.
//!
//! Needs node and `npm ci --prefix tests/profiler-cli`; skipped without them.
#![allow(clippy::unwrap_used)]

mod profile_synthetic;

use std::path::{Path, PathBuf};
use std::process::Command;

use profile_synthetic::{Synthetic, at, everything, large};
use profiler::fact::ThreadId;
use profiler::fact::budget::Budget;
use profiler::report::Summary;
use serde_json::Value;

/// The judge's word on a profile; `None` if it is not installed.
fn judge(facts: &Synthetic, budget: Budget) -> Option<(Value, Summary)> {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/profiler-cli");
    let node = Command::new("node").arg("--version").output().is_ok();
    if !node || !tool.join("node_modules").exists() {
        println!("skipped: needs node and `npm ci --prefix tests/profiler-cli`");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("profile.json");
    let (tables, collected) = facts.collect(budget);
    let mut file = std::fs::File::create(&path).unwrap();
    profiler::profile::write(&tables, &collected, &mut file).unwrap();
    let run = Command::new(tool.join("check")).arg(&path).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some((
        serde_json::from_slice(&run.stdout).unwrap(),
        Summary::new(&tables, &collected),
    ))
}

fn assert_same_totals(found: &Value, summary: &Summary) {
    assert_eq!(found["samples"], summary.samples - summary.samples_without_stack);
    let cpu_ms = found["cpuMs"].as_f64().unwrap();
    let expected = summary.cpu_time_ns as f64 / 1e6;
    assert!(
        (cpu_ms - expected).abs() < 1e-6 * expected,
        "{cpu_ms} ms of CPU time instead of {expected}"
    );
}

#[test]
fn the_front_end_counts_the_same_samples_and_cpu_time_as_the_summary() {
    let mut facts = everything();
    // The front end ignores the first interval of a thread that begins with a sample.
    facts.samples.retain(|sample| sample.time > at(1));
    let Some((found, summary)) = judge(&facts, Budget::default()) else {
        return;
    };
    assert_same_totals(&found, &summary);
    assert_eq!(found["threadCount"], facts.tables.threads.len());
    assert_eq!(found["processes"], facts.tables.processes.len());
    assert_eq!(found["markers"], facts.marks.len());
    let main = found["threads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|thread| thread["tid"] == "100")
        .unwrap();
    let of_main = |sample: &&_| {
        matches!(
            sample,
            profiler::fact::SampleFact {
                thread: ThreadId(0),
                stack: Some(_),
                ..
            }
        )
    };
    assert_eq!(main["samples"], facts.samples.iter().filter(of_main).count());
}

#[test]
fn a_thinned_profile_has_the_totals_of_all_samples() {
    let facts = large(20_000, 20);
    let Some((found, summary)) = judge(
        &facts,
        Budget {
            samples: 1000,
            marks: 10,
        },
    ) else {
        return;
    };
    assert_eq!(summary.samples, 20_000);
    assert_same_totals(&found, &summary);
}
