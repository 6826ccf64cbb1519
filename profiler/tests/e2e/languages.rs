//! The recipes of docs/jit.md: names of functions in languages that are compiled at run time.

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

/// Records the command, and removes the files about its code that it writes to `/tmp`.
fn record(command: &str, arguments: &[&str]) -> Profile {
    let outcome = Ngmi::record().program(command, arguments).run();
    let profile = outcome.profile();
    for thread in &profile.threads {
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", thread.pid));
    }
    profile
}

/// Asserts that most samples have the innermost frame `inner`, and that `outer` called nearly all of these.
#[track_caller]
fn expect(profile: &Profile, inner: &str, outer: &str) {
    let samples: Vec<_> = profile.samples().collect();
    let innermost = |sample: &crate::harness::profile::Sample| {
        let leaf = sample.stack.first();
        leaf.is_some_and(|frame| frame.function.contains(inner) && !frame.function.contains(outer))
    };
    let named = share(samples.iter().copied(), innermost);
    // The rest is the startup of the virtual machine, and its compiler.
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
    // It writes to the working folder, which only this test uses.
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
    // The calling loop is interpreted: the virtual machine has a single name for all interpreted code.
    expect(&record("java", &flags), "Burn.burnsInJava(int)", "Interpreter");
}
