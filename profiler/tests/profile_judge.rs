//! The Firefox Profiler's own code loads ngmi's profiles, and its totals match ngmi's.
//!
//! Needs node and `npm ci --prefix tests/profiler-cli`; skipped without them.
#![allow(clippy::unwrap_used)]

#[path = "profile_judge/left.rs"]
mod left;
mod profile_synthetic;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use profile_synthetic::{Synthetic, at, everything, fault, large, path_track, wait};
use profiler::fact::reduce::budget::Budget;
use profiler::fact::{FaultFact, StackId, ThreadId, WaitFact, WaitReason};
use profiler::profile::PathTrack;
use profiler::report::Summary;
use serde_json::Value;

/// The front end's result for a profile; `None` if it is not installed.
fn judge(facts: &Synthetic, budget: Budget) -> Option<(Value, Summary)> {
    judge_with(facts, budget, &[])
}

/// The same, with more arguments for the front end.
fn judge_with(facts: &Synthetic, budget: Budget, arguments: &[&str]) -> Option<(Value, Summary)> {
    judge_path(facts, budget, None, arguments)
}

/// The same, with the track of a critical path.
fn judge_path(
    facts: &Synthetic,
    budget: Budget,
    path_track: Option<&PathTrack>,
    arguments: &[&str],
) -> Option<(Value, Summary)> {
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
    profile::write_with_path(&tables, &collected, path_track, &mut file).unwrap();
    let run = Command::new(tool.join("check"))
        .arg(&path)
        .args(["--faults", "--busy"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some((
        serde_json::from_slice(&run.stdout).unwrap(),
        Summary::new(&tables, &collected),
    ))
}

fn is_companion(thread: &Value) -> bool {
    thread["isThread"] == false
}

/// Total weight of the companion tracks, by unit.
fn companion_weight(found: &Value, unit: &str) -> f64 {
    let threads = found["threads"].as_array().unwrap().iter();
    let faults = |thread: &&Value| thread["tid"].as_str().unwrap().contains("faults");
    let companions = threads.filter(faults).filter(|thread| thread["weightType"] == unit);
    companions.map(|thread| thread["samples"].as_f64().unwrap()).sum()
}

#[test]
fn page_faults_are_markers_weighted_by_time() {
    let mut facts = everything();
    facts
        .faults
        .iter_mut()
        .for_each(|fault| fault.stack = Some(StackId::new(2)));
    let Some((found, _)) = judge(&facts, Budget::default()) else {
        return;
    };
    let latency: Duration = facts.faults.iter().map(FaultFact::time).sum();
    let ms = companion_weight(&found, "tracing-ms");
    assert!(
        (ms - latency.as_nanos() as f64 / 1e6).abs() < 1e-6,
        "{ms} ms of {latency:?}"
    );
    let bytes: u64 = facts.faults.iter().map(|fault| fault.bytes(4096)).sum();
    let found_bytes = companion_weight(&found, "bytes");
    assert!(
        (found_bytes - bytes as f64).abs() < 0.5,
        "{found_bytes} of {bytes} bytes"
    );

    let threads = found["threads"].as_array().unwrap().iter();
    let faults: Vec<&Value> = threads
        .flat_map(|thread| thread["faults"].as_array().unwrap())
        .collect();
    assert_eq!(faults.len(), facts.faults.len());
    for fault in &faults {
        assert_eq!(fault["stack"][0], "libdemo.so!work", "{fault}");
        assert_eq!(
            fault["stack"].as_array().unwrap().last().unwrap(),
            "libdemo.so!main",
            "{fault}"
        );
    }
    let disk = faults.iter().filter(|fault| fault["category"] == "Page fault (disk)");
    let waited = facts.faults.iter().filter(|fault| fault.waited());
    assert_eq!(disk.count(), waited.count());
    let slow = faults.iter().find(|fault| fault["duration"] == 5.0).unwrap();
    assert_eq!(slow["label"], "file-read libdemo.so 0x2000 .text demo::run");
}

#[test]
fn the_track_of_a_path_has_its_time() {
    let facts = everything();
    let track = path_track();
    let Some((found, _)) = judge_path(&facts, Budget::default(), Some(&track), &[]) else {
        return;
    };
    let threads = found["threads"].as_array().unwrap();
    let path = threads.iter().find(|thread| thread["tid"] == "100-path").unwrap();
    assert_eq!(
        (&path["isThread"], &path["weightType"]),
        (&false.into(), &"tracing-ms".into())
    );
    let ms = path["samples"].as_f64().unwrap();
    assert!((ms - 100.0).abs() < 1e-6, "{ms} ms of 100");
}

#[test]
fn folded_faults_are_in_companion_tracks_and_counters() {
    let mut facts = large(100, 20);
    facts.tables.recording.end = at(600);
    // Their tracks have markers of their own.
    facts.tables.recording.cgroup_usage = Vec::new();
    facts.faults = (0..500)
        .map(|i| FaultFact {
            // Fewer distinct stacks and threads than markers: each keeps its place in the call tree.
            stack: Some(StackId::new(u32::try_from(i % 2).unwrap())),
            place: None,
            ..fault(i, u32::try_from(i % 20).unwrap(), 1000 + i)
        })
        .collect();
    let budget = Budget {
        samples: 1000,
        marks: 50,
    };
    let Some((found, summary)) = judge(&facts, budget) else {
        return;
    };
    assert_eq!(found["markers"], 50);
    let (all, folded) = summary.faults.map(|faults| (faults.faults, faults.folded)).unwrap();
    assert_eq!((all, folded), (500, 450));
    let ms = companion_weight(&found, "tracing-ms");
    let expected: u64 = (0..500).map(|i| 1000 + i).sum();
    assert!((ms - expected as f64 / 1e6).abs() < 1e-6, "{ms} ms of {expected} ns");
}

fn assert_same_totals(found: &Value, summary: &Summary) {
    let threads = found["threads"].as_array().unwrap().iter();
    let samples = threads.filter(|thread| !is_companion(thread));
    let samples: f64 = samples.map(|thread| thread["samples"].as_f64().unwrap()).sum();
    let expected = (summary.samples - summary.samples_without_stack) as f64;
    assert!(
        (samples - expected).abs() < 0.5,
        "{samples} samples instead of {expected}"
    );
    let cpu_ms = found["cpuMs"].as_f64().unwrap();
    let expected = summary.cpu_time_ns as f64 / 1e6;
    assert!(
        (cpu_ms - expected).abs() < 1e-6 * expected,
        "{cpu_ms} ms of CPU time instead of {expected}"
    );
}

#[test]
fn the_front_end_counts_the_same_samples_and_cpu_time_as_the_summary() {
    let mut facts = Synthetic {
        waits: Vec::new(),
        requests: Vec::new(),
        causes: Vec::new(),
        ..everything()
    };
    // The front end ignores the first interval of a thread that begins with a sample.
    facts.samples.retain(|sample| sample.time > at(1));
    let Some((found, summary)) = judge(&facts, Budget::default()) else {
        return;
    };
    assert_same_totals(&found, &summary);
    let threads = found["threads"].as_array().unwrap();
    let companions = threads.iter().filter(|thread| is_companion(thread)).count();
    assert_eq!(
        (threads.len() - companions, companions),
        (
            facts.tables.threads.len(),
            3 + facts.tables.recording.cgroup_usage.len()
        )
    );
    // The track of each cgroup is a process.
    assert_eq!(
        found["processes"],
        facts.tables.processes.len() + facts.tables.recording.cgroup_usage.len()
    );
    let of_threads = threads.iter().filter(|thread| !is_companion(thread));
    let markers: u64 = of_threads.map(|thread| thread["markers"].as_u64().unwrap()).sum();
    let expected = facts.marks.len() + facts.faults.len() + facts.reads.len();
    assert_eq!(markers, expected as u64);
    let main = found["threads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|thread| thread["tid"] == "100")
        .unwrap();
    let of_main = |sample: &&_| {
        matches!(
            sample,
            fact::SampleFact {
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

/// Total time of a thread's samples with a stack and of its waits, in ms; idle waits only if they count.
fn wall_ms(facts: &Synthetic, thread: Option<ThreadId>, idle: bool) -> f64 {
    let of = |id: ThreadId| thread.is_none_or(|thread| thread == id);
    let samples = facts
        .samples
        .iter()
        .filter(|sample| of(sample.thread) && sample.stack.is_some());
    let cpu: Duration = samples.map(|sample| sample.cpu_time).sum();
    let waits = facts
        .waits
        .iter()
        .filter(|wait| of(wait.thread) && (idle || !wait.reason.is_idle()));
    let off: Duration = waits.map(|wait| wait.off).sum();
    (cpu + off).as_secs_f64() * 1e3
}

#[test]
fn the_call_tree_is_wall_clock_time_with_idle_waits_separable() {
    let mut facts = everything();
    facts.samples.retain(|sample| sample.time > at(1));
    let Some((found, summary)) = judge(&facts, Budget::default()) else {
        return;
    };
    let near = |what: &str, ms: &Value, expected: f64| {
        let ms = ms.as_f64().unwrap();
        assert!((ms - expected).abs() < 1e-6, "{what}: {ms} ms instead of {expected}");
    };
    near("all", &found["wallMs"], wall_ms(&facts, None, true));
    near("CPU time", &found["cpuMs"], summary.cpu_time_ns as f64 / 1e6);
    for (tid, id) in [("100", 0), ("101", 1), ("200", 2), ("102", 4)] {
        let threads = found["threads"].as_array().unwrap();
        let thread = threads.iter().find(|thread| thread["tid"] == tid).unwrap();
        let id = Some(ThreadId(id));
        near(tid, &thread["samples"], wall_ms(&facts, id, true));
        near(tid, &thread["busy"], wall_ms(&facts, id, false));
    }
    let device = |pid: &str| {
        let threads = found["threads"].as_array().unwrap();
        threads.iter().find(|thread| thread["pid"] == pid).unwrap().clone()
    };
    assert_eq!(
        (&device("254:0")["samples"], &device("254:0")["markers"]),
        (&(256 << 10).into(), &4.into())
    );
}

#[test]
fn folded_waits_keep_the_time_of_the_call_tree() {
    let mut facts = large(100, 20);
    facts.tables.recording.end = at(600);
    facts.waits = (0..500u32)
        .map(|i| WaitFact {
            off: Duration::from_nanos(1000 + u64::from(i)),
            queued: Duration::from_nanos(u64::from(i) % 7),
            stack: Some(StackId::new(i % 2)),
            ..wait(u64::from(i), u64::from(i) + 1, i % 20, WaitReason::Lock)
        })
        .collect();
    facts.requests.clear();
    let budget = Budget {
        samples: 300,
        marks: 400,
    };
    let Some((found, _)) = judge(&facts, budget) else {
        return;
    };
    let ms = found["wallMs"].as_f64().unwrap();
    let expected = wall_ms(&facts, None, true);
    assert!((ms - expected).abs() < 1e-6, "{ms} ms instead of {expected}");
    let (tables, collected) = facts.collect(budget);
    let folded: u64 = tables.recording.folded_waits.iter().map(|folded| folded.waits).sum();
    assert_eq!(folded, 450, "a sixth of the samples is for waits");
    assert_eq!(
        collected.threads.iter().map(|thread| thread.waits.len()).sum::<usize>(),
        50
    );
}
