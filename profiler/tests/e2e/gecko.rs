//! Firefox's own profiler, played by a script that is named like Firefox; `tests/firefox/check` has the real one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, assert_near, said};

/// Writes the file that the variables ask for, with one marker at a time that it prints.
const SCRIPT: &str = r#"#!/usr/bin/env python3
import json, os, time
print("profiler", os.environ.get("MOZ_PROFILER_STARTUP", "off"), flush=True)
file = os.environ.get("MOZ_PROFILER_SHUTDOWN")
start = time.monotonic_ns()
time.sleep(0.02)
at = time.monotonic_ns()
print("at_ns=%d" % at, flush=True)
if file:
    pid = os.getpid()
    with open(file.replace("%p", str(pid)), "w") as out:
        json.dump({"meta": {"version": 34, "startTimeAsClockMonotonicNanosecondsSinceBoot": start},
                   "threads": [{"pid": pid, "tid": pid, "stringTable": ["DOMContentLoaded"], "markers": {
                       "schema": {"name": 0, "startTime": 1, "endTime": 2, "phase": 3, "category": 4, "data": 5},
                       "data": [[0, (at - start) / 1e6, 0, 0, 0]]}}]}, out)
"#;

fn firefox(ngmi: &Ngmi) -> PathBuf {
    let program = ngmi.dir().join("firefox");
    fs::write(&program, SCRIPT).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn firefoxs_own_markers_are_in_the_profile() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let program = firefox(&ngmi);
    let outcome = ngmi.program(program, [""; 0]).run();
    let profile = outcome.profile();
    let markers: Vec<_> = profile.threads.iter().flat_map(|thread| &thread.markers).collect();
    let marker = markers.iter().find(|marker| marker.name == "DOMContentLoaded");
    let marker = marker.unwrap_or_else(|| panic!("no marker; {} {}", outcome.stdout, outcome.stderr));
    let zero = profile.meta["startTimeAsClockMonotonicNanosecondsSinceBoot"]
        .as_u64()
        .unwrap();
    let at = (said(&outcome.stdout, "at_ns") - zero) as f64 / 1e6;
    assert_near("the marker, in ms", marker.time.0.unwrap(), at, 0.001);
}

#[test]
fn a_firefox_without_markers_is_recorded_with_a_note() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let program = ngmi.dir().join("firefox");
    std::os::unix::fs::symlink("/bin/true", &program).unwrap();
    let outcome = ngmi.program(program, [""; 0]).run();
    outcome.expect_code(0);
    assert!(outcome.stderr.contains("no markers of its own"), "{}", outcome.stderr);
}

#[test]
fn gecko_off_and_a_users_own_variables_leave_the_program_alone() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let program = firefox(&ngmi);
    let outcome = ngmi.arg("--gecko=off").program(program, [""; 0]).run();
    assert!(outcome.stdout.contains("profiler off"), "{}", outcome.stdout);
    let ngmi = Ngmi::record();
    let program = firefox(&ngmi);
    let outcome = ngmi.env("MOZ_PROFILER_STARTUP", "0").program(program, [""; 0]).run();
    assert!(outcome.stdout.contains("profiler 0"), "{}", outcome.stdout);
    assert!(!outcome.stderr.contains("no markers of its own"), "{}", outcome.stderr);
}
