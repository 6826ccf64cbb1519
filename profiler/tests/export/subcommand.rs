//! The subcommand itself: where it writes, and its error messages.

use std::io::Read as _;

use profiler::fact::request::Operation;
use profiler::fact::{DeviceId, FoldedRequests};

use super::{everything, ngmi, profile};

/// Expects exit status 1 and a message with all of these parts.
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
fn only_the_export_goes_to_standard_output() {
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
fn impossible_requests_are_refused_with_a_remedy() {
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
        &["--weight requires --format folded"],
    );
    check(
        &["--format=folded", "--table=waits", "--weight=bytes"],
        &input,
        &["waits have no bytes", "time or count"],
    );
    check(
        &["--format=folded", "--table=path", "--weight=bytes"],
        &input,
        &["path pieces have no bytes"],
    );
    check(
        &["--format=folded", "--table=waits", "--thread=main"],
        &input,
        &["--thread", "add --table path"],
    );
    check(
        &["--format=parquet", "--table=path", "--thread=absent"],
        &input,
        &["no thread", "absent"],
    );
    let foreign = folder.path().join("foreign.json");
    std::fs::write(&foreign, OTHERS).unwrap();
    check(
        &["--format=otlp", "--table=faults,waits"],
        &foreign,
        &[
            "foreign.json was written by samply",
            "CPU samples only",
            "--table samples",
        ],
    );
    std::fs::write(&foreign, "{\"meta\":{}}").unwrap();
    check(&["--format=otlp"], &foreign, &["foreign.json", "not a profile"]);
    let mut facts = super::Synthetic {
        tables: everything().tables,
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
        ("path", "--off-cpu all"),
    ] {
        for format in ["pprof", "otlp", "folded", "parquet"] {
            let arguments = ["export", "-o", file, "--format", format, "--table", table];
            refused(&arguments, &nothing, &["nothing.json", "contains no", part]);
        }
    }
    refused(
        &["export", "-o", "-", "--format", "folded"],
        &nothing,
        &["contains no page faults"],
    );
}

#[test]
fn what_was_written_is_counted_by_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    std::fs::write(&path, everything().json()).unwrap();
    let to = folder.path().join("p.pb.gz");
    let to = to.to_str().unwrap();
    let output = ngmi(&["export", "--format=pprof", "--table=faults,waits", "-o", to], &path);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(" faults, ") && said.contains(" waits, "), "{said}");
}

/// A request may consist of several I/Os, and an unfinished one of none.
#[test]
fn only_requests_over_capacity_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.json");
    let exported = |facts: &super::Synthetic| {
        std::fs::write(&path, facts.json()).unwrap();
        ngmi(&["export", "--format=folded", "--table=requests", "-o", "-"], &path)
    };
    let message = |facts: &super::Synthetic| {
        let output = exported(facts);
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let mut facts = everything();
    // A read, and an unfinished request.
    facts.requests.remove(1);
    facts.tables.recording.requests_seen = 2;
    assert_eq!(message(&facts), "");
    // As many I/Os as there were requests.
    let part = facts.requests[0].bios[0].clone();
    facts.requests[0].bios.extend([part.clone(), part.clone(), part]);
    facts.tables.recording.requests_seen = 4;
    facts.tables.recording.folded_requests = vec![FoldedRequests {
        device: DeviceId(0),
        operation: Operation::Read,
        requests: 2,
        bytes: 1,
        time: 1,
    }];
    let said = message(&facts);
    assert!(said.contains("contains 2 of the 4 recorded block requests"), "{said}");
    facts.tables.recording.folded_requests.clear();
    facts.requests.remove(0);
    facts.tables.recording.requests_seen = 1;
    let output = exported(&facts);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("contains no block requests: all requests were still in flight when the recording ended"),
        "{said}"
    );
}

/// A profile of a thread that spent 1.5 ms in `hot`, called by `main`, and 0.5 ms in `main`, as
/// samply writes it.
const OTHERS: &str = r#"{"meta":{"interval":1,"startTime":1000,"preprocessedProfileVersion":49,"importer":"samply",
    "sampleUnits":{"threadCPUDelta":"µs"}},"libs":[{"name":"demo","path":"/bin/demo"}],"threads":[{"name":"t","processName":"demo",
    "pid":"7","tid":8,"samples":{"stack":[1,0],"timeDeltas":[1,1],"threadCPUDelta":[1500,500]},"stringArray":["main","hot"],
    "frameTable":{"address":[16,32],"func":[0,1]},"funcTable":{"name":[0,1],"resource":[0,0]},"resourceTable":{"lib":[0]},
    "stackTable":{"prefix":[null,0],"frame":[0,1]}}]}"#;

/// The same profile as Firefox itself would write it.
const GECKO: &str = r#"{"meta":{"version":27,"interval":1,"startTime":1000,"sampleUnits":{"threadCPUDelta":"µs"}},"libs":[],"processes":[],
    "threads":[{"name":"t","processName":"demo","pid":7,"tid":8,"samples":{"schema":{"stack":0,"time":1,"threadCPUDelta":2},
    "data":[[1,1,1500],[0,2,500]]},"frameTable":{"schema":{"location":0},"data":[[0],[1]]},
    "stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0],[0,1]]},"stringTable":["main","hot"]}]}"#;

#[test]
fn cpu_samples_of_foreign_profiles_are_exported() {
    let folder = tempfile::tempdir().unwrap();
    for (text, by) in [
        (OTHERS, "written by samply"),
        (GECKO, "written by Firefox's own profiler"),
    ] {
        let input = folder.path().join("other.json");
        std::fs::write(&input, text).unwrap();
        let as_folded = |more: &[&str]| {
            let output = ngmi(&[&["export", "--format=folded", "-o", "-"], more].concat(), &input);
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{error}");
            (String::from_utf8(output.stdout).unwrap(), error)
        };
        let (stacks, error) = as_folded(&["--table=samples"]);
        assert_eq!((&*stacks, &*error), ("demo;main 500000\ndemo;main;hot 1500000\n", ""));
        // No table is requested: what is available is exported, with a note that says why.
        let (stacks, error) = as_folded(&[]);
        assert!(
            stacks.contains("demo;main;hot 1500000\n") && error.contains(by),
            "{error}"
        );
        assert_eq!(
            as_folded(&["--table=samples", "--weight=count"]).0,
            "demo;main 1\ndemo;main;hot 1\n"
        );
        for format in ["pprof", "otlp", "parquet"] {
            let format = format!("--format={format}");
            let output = ngmi(&["export", &format, "--table=samples", "-o", "-"], &input);
            assert!(output.status.success() && output.stdout.len() > 100, "{format}");
        }
        let output = ngmi(
            &["export", "--format=pprof", "--table=samples,faults", "-o", "-"],
            &input,
        );
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success() && error.contains("contains CPU samples only"),
            "{error}"
        );
    }
}
