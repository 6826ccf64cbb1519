//! The subcommand on a synthetic log.

use std::path::Path;
use std::process::{Command, Output};

use profiler::addr::Timestamp;
use profiler::event::{Event, HookStatus, Wait};
use profiler_common::switch::state;

use fixtures::log::{at, begin};

/// A log of one thread with `n` waits of 2 µs, one every 10 µs.
fn log(path: &Path, n: u64, hooks: Vec<HookStatus>) {
    let mut log = begin(path, "waiter", hooks);
    for i in 0..n {
        let end = at(i * 10_000 + 2_000);
        let wait = Wait {
            at: end,
            out: Timestamp(end.time.0 - 2_000),
            end: end.time,
            off: 2_000,
            longest: 2_000,
            count: 1,
            state: state::STOPPED,
            ..Wait::default()
        };
        log.event(&Event::Wait(wait)).unwrap();
    }
    log.finish().unwrap();
}

fn waits(arguments: &[&str], path: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    command.arg("waits").args(arguments).arg(path).output().unwrap()
}

#[test]
fn tables_rows_and_json_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    log(&path, 50, Vec::new());
    let csv = String::from_utf8(waits(&["--csv"], &path).stdout).unwrap();
    assert_eq!(csv.lines().count(), 51);
    assert!(
        csv.lines().nth(1).unwrap().starts_with("0,7,7,stopped,2000,0,1,"),
        "{csv}"
    );
    let json = waits(&["--json", "--reason", "stopped"], &path).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&json["totals"]["waits"], &json["totals"]["off_ns"]),
        (&50.into(), &100_000.into())
    );
    assert_eq!(json["by_reason"][0]["lengths"][0]["from_ns"], 1024);
    let text = waits(&[], &path);
    assert!(text.status.success());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("waits:    50, 100 µs off-CPU") && text.contains("stopped"),
        "{text}"
    );
    let none = waits(&["--reason", "disk"], &path);
    assert!(none.status.success());
}

#[test]
fn a_recording_without_waits_says_how_to_get_some() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let refused = HookStatus {
        noun: "switch".into(),
        hook: "tp_btf/sched_switch".into(),
        refused: Some("no BTF".into()),
        remedy: Some("take another kernel".into()),
    };
    for (hooks, expected) in [
        (Vec::new(), "--off-cpu all"),
        (vec![refused], "no BTF); take another kernel"),
    ] {
        log(&path, 0, hooks);
        let out = waits(&[], &path);
        assert_eq!(out.status.code(), Some(1));
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
    }
}
