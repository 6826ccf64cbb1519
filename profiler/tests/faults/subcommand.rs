//! The subcommand `ngmi faults`: its columns, its two sources, and the faults that `--faults` filters out.

use crate::harness::{Ngmi, Oracle};
use crate::rows::{COLUMNS, Row};
use crate::run::{ndjson, read, record, recorder, rows, scratch};
use crate::tier::{Tier, in_each_tier};

in_each_tier!(
    columns,
    the_log_and_the_profile,
    faults_of_files_only,
    major_faults_only,
    no_faults
);

/// Every row has these keys in this order, which programs that read rows rely on.
fn columns(tier: Tier) {
    let Some(run) = record(tier, &Oracle::c("faults/anon"), ["zero"]) else {
        return;
    };
    let text = ndjson(&run.outcome.file("log"), &[]);
    assert!(text.lines().count() >= 128);
    for line in text.lines() {
        let places: Vec<Option<usize>> = COLUMNS.iter().map(|key| line.find(&format!("\"{key}\":"))).collect();
        assert!(places.iter().all(Option::is_some), "{places:?} in {line}");
        assert!(places.is_sorted(), "wrong order of keys in {line}");
    }
}

/// Below its budget, the profile contains every fault exactly.
fn the_log_and_the_profile(tier: Tier) {
    let folder = scratch();
    let arguments = ["private-after-read", folder.path().to_str().unwrap()];
    let Some(run) = record(tier, &Oracle::c("faults/writes"), arguments) else {
        return;
    };
    run.expect_phases();
    let from_profile = rows(&run.outcome.file("out.json.gz"), &[]);
    assert_eq!(from_profile.len(), run.rows.len());
    for (one, other) in run.rows.iter().zip(&from_profile) {
        assert_eq!(one, other);
    }
}

/// Records the cold file with `--faults FAULTS`, and returns the rows of its mapping and the other rows.
fn with_faults(tier: Tier, faults: &str) -> Option<(Vec<Row>, Vec<Row>)> {
    let folder = scratch();
    let program =
        recorder(tier, faults).program(Oracle::c("faults/cold"), ["ascending", folder.path().to_str().unwrap()]);
    let run = read(tier, program.run())?;
    for account in &run.accounts {
        account.expect_closed();
        assert_eq!(account.lost, 0, "{account:?}");
    }
    let phase = &run.said.phases[0];
    assert!(run.account(phase.tid).filtered > 0, "filtered faults are counted");
    let (ours, others) = run.rows.iter().cloned().partition(|row| phase.holds(row.address));
    Some((ours, others))
}

fn faults_of_files_only(tier: Tier) {
    let Some((ours, others)) = with_faults(tier, "file") else {
        return;
    };
    assert_eq!(ours.len(), 64);
    assert!(!others.is_empty(), "the program and its libraries are files too");
    for row in &others {
        assert!(row.file.is_some(), "{row:?}");
    }
}

fn major_faults_only(tier: Tier) {
    let Some((ours, others)) = with_faults(tier, "major") else {
        return;
    };
    // The kernel's definition of major differs by version; here, every page had to be read.
    assert!(ours.len() > 32, "{}", ours.len());
    for row in ours.iter().chain(&others) {
        assert!(row.major || row.waited == Some(true), "{row:?}");
    }
}

fn no_faults(tier: Tier) {
    let outcome = recorder(tier, "off").program(Oracle::c("faults/anon"), ["zero"]).run();
    outcome.expect_code(0);
    let report = Ngmi::subcommand("faults")
        .arg(outcome.file("log"))
        .arg("--ndjson")
        .run();
    report.expect_refusal(&["no page fault", "--faults all"]);
    assert_eq!(report.stdout, "");
}
