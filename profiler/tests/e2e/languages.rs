//! The recipes of docs/jit.md: programs in languages that are compiled at run time, with names.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::profile::share;
use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Profile};

/// Whether a command can be run here.
fn is_there(command: &str) -> bool {
    let version = Command::new(command)
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if version.is_err() {
        skip(&format!("no {command}"));
    }
    version.is_ok()
}

fn oracle(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles").join(file)
}

/// Records the command; what it writes to `/tmp` about its code is removed.
fn record(command: &str, arguments: &[&str]) -> Profile {
    let outcome = Ngmi::record().program(command, arguments).run();
    let profile = outcome.profile();
    for thread in &profile.threads {
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", thread.pid));
    }
    profile
}

/// Shares of all samples whose innermost frame is `inner`, and of those the ones that `outer` called.
#[track_caller]
fn expect(profile: &Profile, inner: &str, outer: &str) {
    let samples: Vec<_> = profile.samples().collect();
    let innermost = |sample: &crate::harness::profile::Sample| {
        let leaf = sample.stack.first();
        leaf.is_some_and(|frame| frame.function.contains(inner) && !frame.function.contains(outer))
    };
    let named = share(samples.iter().copied(), innermost);
    // What is left is the start of the virtual machine, and its compiler.
    assert!(named > 0.75, "{inner}: {named}");
    let called = share(samples.into_iter().filter(|sample| innermost(sample)), |sample| {
        sample.stack.iter().any(|frame| frame.function.contains(outer))
    });
    assert!(called > 0.9, "{outer} is below {inner}: {called}");
}

#[test]
fn node() {
    needs_capture!();
    if !is_there("node") {
        return;
    }
    let script = oracle("burn.js");
    let flags = [
        "--perf-basic-prof",
        "--interpreted-frames-native-stack",
        script.to_str().unwrap(),
    ];
    expect(&record("node", &flags), "burnsInNode", "callsBurnsInNode");
}

#[test]
fn node_with_a_jitdump() {
    needs_capture!();
    if !is_there("node") {
        return;
    }
    let script = oracle("burn.js");
    let flags = [
        "--perf-prof",
        "--interpreted-frames-native-stack",
        script.to_str().unwrap(),
    ];
    // It writes to the working folder, which is the test's own.
    expect(&record("node", &flags), "burnsInNode", "callsBurnsInNode");
}

#[test]
fn java() {
    needs_capture!();
    if !is_there("javac") || !is_there("java") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let compiled = Command::new("javac")
        .arg("-d")
        .arg(folder.path())
        .arg(oracle("Burn.java"))
        .status();
    assert!(compiled.unwrap().success());
    let flags = [
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+DumpPerfMapAtExit",
        "-XX:+PreserveFramePointer",
        "-cp",
        folder.path().to_str().unwrap(),
        "Burn",
    ];
    // The loop that calls it is interpreted: the virtual machine has one name for all of that.
    expect(&record("java", &flags), "Burn.burnsInJava(int)", "Interpreter");
}
