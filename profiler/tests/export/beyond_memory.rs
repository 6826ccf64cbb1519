//! What doesn't fit into memory is spooled to disk and read back; no subcommand's output changes.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};

use fixtures::synthetic_log;

/// Every subcommand that reads rows. `INPUT` is replaced by the log.
const SUBCOMMANDS: [&[&str]; 14] = [
    &["faults", "INPUT"],
    &["faults", "INPUT", "--csv"],
    &["faults", "INPUT", "--list"],
    &["waits", "INPUT", "--json"],
    &["waits", "INPUT", "--csv"],
    &["io", "INPUT", "--json"],
    &["io", "INPUT", "--csv"],
    &["smaps", "INPUT", "--json"],
    &["check", "INPUT", "--against", "INPUT", "--json"],
    &["diff", "INPUT", "INPUT", "--json"],
    &[
        "export", "INPUT", "--format", "parquet", "--table", "samples", "-o", "-",
    ],
    &["export", "INPUT", "--format", "parquet", "--table", "faults", "-o", "-"],
    &[
        "export", "INPUT", "--format", "parquet", "--table", "requests", "-o", "-",
    ],
    &["export", "INPUT", "--format", "parquet", "--table", "waits", "-o", "-"],
];

fn run(subcommand: &[&str], log: &Path, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    for argument in subcommand {
        match *argument {
            "INPUT" => command.arg(log),
            other => command.arg(other),
        };
    }
    let output = command.envs(environment.iter().copied()).output().unwrap();
    assert!(
        output.status.success(),
        "{subcommand:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!output.stdout.is_empty(), "{subcommand:?}");
    output
}

#[test]
fn subcommands_print_the_same_beyond_memory() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    synthetic_log::write(File::create(&log).unwrap(), synthetic_log::Size::Events(2000), 50).unwrap();
    // Some ten rows fit.
    let tiny = ("NGMI_ROWS_BYTES", "1000");
    let place = ("TMPDIR", folder.path().to_str().unwrap());
    for subcommand in SUBCOMMANDS {
        let known = run(subcommand, &log, &[]);
        let beyond = run(subcommand, &log, &[tiny, place]);
        assert!(known.stdout == beyond.stdout, "{subcommand:?} differs beyond memory");
        assert_eq!(known.stderr, beyond.stderr, "{subcommand:?}");
        let nowhere = run(subcommand, &log, &[tiny, ("TMPDIR", "/nonexistent")]);
        assert!(known.stdout == nowhere.stdout, "{subcommand:?} differs without a place");
        let printed = String::from_utf8(nowhere.stderr).unwrap();
        if cfg!(debug_assertions) {
            assert!(
                printed.contains("stay in memory: cannot write to /nonexistent"),
                "{subcommand:?}: {printed}"
            );
        }
    }
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no file is left behind"
    );
}
