//! Firefox's own profiler, played by a script that is named like Firefox; `tests/firefox/check` has the real one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

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

/// A shell in the place of a running Firefox, next to its library: it has a thread named like the sampler's between the two
/// signals, and writes its file on the second one.
fn running_firefox(folder: &Path) -> Child {
    fs::copy("/bin/sh", folder.join("browser")).unwrap();
    fs::File::create(folder.join("libxul.so")).unwrap();
    let script = r#"
        comm() { printf %s "$1" > /proc/$$/comm; }
        trap 'comm SamplerThread; : > started' USR1
        trap 'cp text profile_0_$$.json; comm browser; : > stopped' USR2
        : > ready
        while [ ! -e stop ]; do sleep 0.02; done
    "#;
    fs::write(folder.join("script"), script).unwrap();
    let text = r#"{"meta": {"version": 34, "startTime": 0}, "threads": [], "profileGatheringLogEnd_TSms": 1}"#;
    fs::write(folder.join("text"), text).unwrap();
    let mut shell = Command::new(folder.join("browser"));
    shell.arg("script").current_dir(folder).env("MOZ_UPLOAD_DIR", folder);
    let child = shell.spawn().unwrap();
    while !folder.join("ready").exists() {
        sleep(Duration::from_millis(10));
    }
    child
}

fn end(folder: &Path, mut firefox: Child) {
    fs::File::create(folder.join("stop")).unwrap();
    firefox.wait().unwrap();
}

#[test]
fn the_profiler_of_a_running_firefox_is_started_and_stopped() {
    needs_capture!();
    let folder = tempfile::tempdir().unwrap();
    let firefox = running_firefox(folder.path());
    let pid = firefox.id().to_string();
    let outcome = Ngmi::record().args(["--gecko", "-p", &pid, "-d", "0.3"]).run();
    outcome.profile();
    let place = |name: &str| folder.path().join(name);
    assert!(place("started").exists() && place("stopped").exists());
    assert!(!place(&format!("profile_0_{pid}.json")).exists());
    assert!(!outcome.stderr.contains("no markers of its own"), "{}", outcome.stderr);
    end(folder.path(), firefox);
}

#[test]
fn a_refused_running_firefox_gets_no_signal_and_leaves_no_file() {
    needs_capture!();
    let pid = std::process::id().to_string();
    let outcome = Ngmi::record().args(["--gecko", "-p", &pid]).run();
    outcome.expect_refusal(&["no process named with -p", "ngmi load --merge"]);
    outcome.expect_files(&[]);

    let folder = tempfile::tempdir().unwrap();
    let firefox = running_firefox(folder.path());
    let pid = firefox.id().to_string();
    fs::write(folder.path().join(format!("profile_0_{pid}.json")), "theirs").unwrap();
    let outcome = Ngmi::record().args(["--gecko", "-p", &pid]).run();
    outcome.expect_refusal(&["would overwrite"]);
    outcome.expect_files(&[]);
    assert!(!folder.path().join("started").exists());
    end(folder.path(), firefox);
}

#[test]
fn giving_up_stops_the_profiler_of_a_running_firefox() {
    needs_capture!();
    let folder = tempfile::tempdir().unwrap();
    let firefox = running_firefox(folder.path());
    let pid = firefox.id().to_string();
    fs::write(folder.path().join("text"), "{").unwrap(); // never complete: ngmi waits for it
    let mut running = Ngmi::record().args(["--gecko", "-p", &pid, "-d", "60"]).start();
    let place = |name: &str| folder.path().join(name);
    running.wait_until("the profiler to start", |_| place("started").exists());
    running.signal(nix::sys::signal::Signal::SIGINT);
    running.wait_until("the profiler to stop", |_| place("stopped").exists());
    sleep(Duration::from_secs(1)); // a second Ctrl-C at once counts as the first
    running.signal(nix::sys::signal::Signal::SIGINT);
    let outcome = running.wait();
    let file = place(&format!("profile_0_{pid}.json"));
    let words = [
        "gave up",
        "Firefox stops its profiler and writes",
        file.to_str().unwrap(),
    ];
    outcome.expect_refusal(&words);
    end(folder.path(), firefox);
}
