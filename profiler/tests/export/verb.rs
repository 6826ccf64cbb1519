//! The verb itself: where it writes, and what it says when it can't.

use std::io::Read as _;

use super::{ngmi, profile};

/// The exit status is 1, and all of this is told.
fn refused(arguments: &[&str], input: &std::path::Path, parts: &[&str]) {
    let output = ngmi(arguments, input);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(output.stdout.is_empty());
    for part in parts {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn standard_output_takes_it_and_only_it() {
    let (_folder, input) = profile();
    let output = ngmi(&["export", "--format", "pprof", "-o", "-"], &input);
    assert!(output.status.success() && output.stderr.is_empty());
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&output.stdout[..])
        .read_to_end(&mut plain)
        .unwrap();
    assert!(!plain.is_empty());
    let output = ngmi(&["export", "--format", "folded", "-o", "-"], &input);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.lines().count() > 0 && text.lines().all(|line| line.contains(';')),
        "{text}"
    );
    let output = ngmi(&["export", "--format", "parquet", "-o", "-"], &input);
    assert!(output.stdout.starts_with(b"PAR1") && output.stdout.ends_with(b"PAR1"));
}

#[test]
fn what_can_not_be_done_is_told_with_the_remedy() {
    let (folder, input) = profile();
    let file = folder.path().join("out");
    let file = file.to_str().unwrap();
    let export = |more: &[&'static str]| -> Vec<String> {
        let all = [&["export", "-o", file][..], more].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let check = |more: &[&'static str], input: &std::path::Path, parts: &[&str]| {
        let arguments = export(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        refused(&arguments, input, parts);
        assert!(!std::path::Path::new(file).exists(), "{more:?}");
    };
    check(
        &["--format=parquet", "--table=faults,waits"],
        &input,
        &["one table", "--table faults"],
    );
    check(
        &["--format=pprof", "--weight=count"],
        &input,
        &["--weight is for --format folded"],
    );
    check(
        &["--format=folded", "--table=waits", "--weight=bytes"],
        &input,
        &["waits have no bytes", "time or count"],
    );
    let foreign = folder.path().join("foreign.json");
    std::fs::write(&foreign, r#"{"meta":{"preprocessedProfileVersion":70},"threads":[]}"#).unwrap();
    check(&["--format=otlp"], &foreign, &["foreign.json", "not written by ngmi"]);
    let mut facts = super::Synthetic {
        tables: super::everything().tables,
        ..super::Synthetic::default()
    };
    let recording = &mut facts.tables.recording;
    recording.hooks.clear();
    (recording.faults_seen, recording.waits_seen, recording.requests_seen) = (0, 0, 0);
    let nothing = folder.path().join("nothing.json");
    std::fs::write(&nothing, facts.json()).unwrap();
    for (table, part) in [
        ("faults", "--faults all"),
        ("waits", "--off-cpu all"),
        ("requests", "record again"),
    ] {
        for format in ["pprof", "otlp", "folded", "parquet"] {
            let arguments = ["export", "-o", file, "--format", format, "--table", table];
            refused(&arguments, &nothing, &["nothing.json", "holds no", part]);
        }
    }
    refused(
        &["export", "-o", "-", "--format", "folded"],
        &nothing,
        &["holds no faults"],
    );
}
