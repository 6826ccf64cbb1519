//! Limits of open files: a recording keeps each mapped executable file open, and the command has the same limits as without ngmi.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome};

/// More than the available descriptors with a limit of 256 open files.
const COPIES: usize = 300;

/// Records a program that maps `COPIES` copies of a library, under these limits.
fn copies(limits: &str) -> Outcome {
    let ngmi = Ngmi::record_under(limits);
    let library = Oracle::library("pure.c", "pure_spin");
    let folder = ngmi.dir().join("copies");
    std::fs::create_dir(&folder).unwrap();
    let path = |number| folder.join(format!("copy{number}.so"));
    let paths: Vec<PathBuf> = (0..COPIES).map(|number| library.copied(&path(number)).path).collect();
    ngmi.program(Oracle::c_with("copies.c", "copies", &["-ldl"]), paths)
        .run()
}

/// Asserts that the time is spent in functions of the copies, in nearly all of them.
#[track_caller]
fn expect_names(outcome: &Outcome) {
    let profile = outcome.profile();
    let main = profile.main_of("copies");
    assert!(main.share("pure_spin") > 0.6, "{}", main.share("pure_spin"));
    let copies: HashSet<&str> = main
        .samples
        .iter()
        .flat_map(|sample| sample.stack.iter())
        .filter(|frame| frame.function == "pure_spin")
        .filter_map(|frame| frame.module.as_deref())
        .collect();
    assert!(
        copies.len() > COPIES - COPIES / 10,
        "{} copies have names",
        copies.len()
    );
}

#[test]
fn more_files_are_mapped_than_may_be_open() {
    needs_capture!();
    let outcome = copies("ulimit -n 256");
    expect_names(&outcome);
    for word in ["could not be held", "no more than 256 files", "`ulimit -n`"] {
        assert!(outcome.stderr.contains(word), "no {word:?}: {}", outcome.stderr);
    }
}

#[test]
fn a_limit_that_can_be_raised_is_raised() {
    needs_capture!();
    let outcome = copies("ulimit -Sn 256");
    expect_names(&outcome);
    assert!(!outcome.stderr.contains("ulimit"), "{}", outcome.stderr);
}

#[test]
fn the_command_has_the_limits_that_it_would_have_without() {
    needs_capture!();
    let limits = "ulimit -Sn 300; ulimit -Hn 4000";
    let show = "ulimit -Sn; ulimit -Hn";
    let once = Ngmi::record_under(limits).program("sh", ["-c", show]).run();
    once.profile();
    assert_eq!(once.stdout, "300\n4000\n");
    let twice = Ngmi::record_under(limits).args(["--runs", "2"]);
    let twice = twice.program("sh", ["-c", show]).run();
    twice.expect_code(0);
    assert_eq!(twice.stdout, "300\n4000\n300\n4000\n");
}
