//! `ngmi smaps`: the memory of a program that knows its own pages, the kernel's own sums, and what
//! a recording knows.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

#[path = "../e2e/harness/oracle.rs"]
#[allow(dead_code)]
mod oracle;
#[path = "../e2e/harness/page.rs"]
#[allow(dead_code)]
mod page;
#[path = "../profile_synthetic/mod.rs"]
mod profile_synthetic;

#[path = "../e2e/harness/skip.rs"]
#[allow(dead_code, unused_imports, unused_macros, clippy::expect_used)]
mod skip;

mod known;
mod process;

use std::process::{Command, Output};

fn ngmi(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    command.arg("smaps").args(arguments).output().unwrap()
}

/// The standard output of a successful run.
fn said(arguments: &[&str]) -> String {
    let output = ngmi(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The standard error of a failed run.
fn refused(arguments: &[&str]) -> String {
    let output = ngmi(arguments);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[track_caller]
fn fits_a_terminal(text: &str) {
    let long = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None, "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text}");
}
