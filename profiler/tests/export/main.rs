//! `ngmi export`: third-party programs can read its output, and the sums match those of ngmi's
//! other subcommands.
//!
//! `tests/export/readers` fetches the readers; a test whose reader is missing is skipped.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

#[path = "../profile_synthetic/any_fault.rs"]
mod any_fault;
#[path = "../profile_synthetic/any_recording.rs"]
mod any_recording;
#[path = "../profile_synthetic/any_wait.rs"]
mod any_wait;
#[path = "../profile_synthetic/mod.rs"]
mod profile_synthetic;
#[path = "../e2e/harness/skip.rs"]
#[allow(dead_code, unused_imports, unused_macros, clippy::expect_used)]
mod skip;

mod beyond_memory;
mod lists;
mod path;
mod readers;
mod rows;
mod stacks;
mod subcommand;
mod sums;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use profile_synthetic::{Synthetic, everything};
use profiler::fact::FactSink;

/// The order doesn't matter here.
fn sorted(facts: Synthetic) -> Synthetic {
    facts
}

/// Replays all facts of a recording, as a source does.
fn replay(facts: &Synthetic, sink: &mut dyn FactSink) {
    let tables = &facts.tables;
    facts.samples.iter().for_each(|sample| sink.sample(tables, sample));
    facts.faults.iter().for_each(|fault| sink.fault(tables, fault));
    facts.waits.iter().for_each(|wait| sink.wait(tables, wait));
    facts.requests.iter().for_each(|request| sink.request(tables, request));
    facts.causes.iter().for_each(|cause| sink.joined(tables, cause));
}

/// A folder with a profile that has every kind of fact, and names that are hard on readers.
fn profile() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("everything.json");
    std::fs::write(&path, everything().json()).unwrap();
    (folder, path)
}

fn ngmi(arguments: &[&str], input: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    command.arg(arguments[0]).arg(input).args(&arguments[1..]);
    command.output().unwrap()
}

/// A subcommand's JSON output.
fn json(subcommand: &str, input: &Path) -> serde_json::Value {
    let output = ngmi(&[subcommand, "--json"], input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exports into a file next to the input.
fn exported(input: &Path, arguments: &[&str], name: &str) -> PathBuf {
    let path = input.with_file_name(name);
    let all = [&["export", "-o", path.to_str().unwrap()], arguments].concat();
    let output = ngmi(&all, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}
