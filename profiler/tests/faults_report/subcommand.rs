//! The subcommand on a synthetic log: what it prints, and its error messages.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use profiler::addr::{Avma, Timestamp};
use profiler::event::{Event, Fault, HookStatus};

use fixtures::log::{START, at, begin};

/// A log of one thread with `n` faults, one every 10 µs.
fn log(path: &Path, n: u64, hooks: Vec<HookStatus>) {
    let mut writer = begin(path, "storm", hooks);
    for i in 0..n {
        let fault = Fault {
            at: at(i * 10_000 + 2000),
            start: Some(Timestamp(START + i * 10_000)),
            address: Avma(0x7000_0000_0000 + i * 4096),
            ..Fault::default()
        };
        writer.event(&Event::Fault(fault)).unwrap();
    }
    writer.finish().unwrap();
}

fn ngmi(arguments: &[&str], input: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    command.arg("faults").arg(input).args(arguments).env_remove("NO_COLOR");
    command
}

fn output(arguments: &[&str], input: &Path) -> Output {
    ngmi(arguments, input).output().unwrap()
}

#[test]
fn a_log_is_read_and_a_reader_that_leaves_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("storm.events");
    log(&path, 20_000, Vec::new());
    let csv = output(&["--csv"], &path);
    assert!(csv.status.success(), "{csv:?}");
    let text = String::from_utf8(csv.stdout).unwrap();
    assert_eq!(text.lines().count(), 20_001);
    assert!(
        text.lines().nth(2).unwrap().starts_with("10000,7,7,,,,,"),
        "{:?}",
        text.lines().nth(2)
    );
    let json: serde_json::Value = serde_json::from_slice(&output(&["--json"], &path).stdout).unwrap();
    assert_eq!(json["totals"]["faults"], 20_000);
    assert_eq!(json["totals"]["time_ns"], 20_000 * 2000);
    let tables = String::from_utf8(output(&[], &path).stdout).unwrap();
    assert!(
        tables.contains("faults:  20,000, 0 major") && !tables.contains('\u{1b}'),
        "{tables}"
    );
    let half = output(&["--csv", "--from", "0.1"], &path);
    assert_eq!(String::from_utf8(half.stdout).unwrap().lines().count(), 10_001);
    let beyond = output(&["--from", "5"], &path);
    assert_eq!(beyond.status.code(), Some(1), "{beyond:?}");
    let said = String::from_utf8(beyond.stderr).unwrap();
    assert!(
        said.contains("--from is 5.00 s after the recording's start, but the recording ends after"),
        "{said}"
    );
    let page = output(&["--html", "-"], &path);
    assert!(
        page.status.success() && page.stdout.starts_with(b"<!"),
        "{:?}",
        page.stderr
    );

    for format in ["--csv", "--ndjson", "--json"] {
        let mut child = ngmi(&[format], &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut some = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let rest = child.wait_with_output().unwrap();
        assert!(rest.status.success() && rest.stderr.is_empty(), "{format}: {rest:?}");
    }
    let mut man = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    man.arg("man");
    for mut command in [ngmi(&["--csv"], &path), man] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "a full disk is an error");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("cannot write to standard output"), "{error}");
    }
}

#[test]
fn no_output_replaces_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("storm.events");
    log(&path, 3, Vec::new());
    let before = std::fs::read(&path).unwrap();
    for words in [
        &["convert", "storm.events", "-o", "./storm.events"][..],
        &["export", "storm.events", "--format", "folded", "-o", "storm.events"],
        &["faults", "storm.events", "--html", "storm.events"],
        &["order", "storm.events", "--file", "x", "-o", "storm.events"],
        &["preload", "storm.events", "-o", "storm.events"],
        &["diff", "storm.events", "storm.events", "--profile", "storm.events"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
        let output = command.args(words).current_dir(folder.path()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("would replace the recording"), "{words:?}: {error}");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(std::fs::read(&path).unwrap(), before, "{words:?}");
    }
}

#[test]
fn refusals_name_the_file_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made up.events");
    let expect_error = |arguments: &[&str], parts: &[&str]| {
        let output = output(arguments, &path);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            parts.iter().chain(&["made up.events"]).all(|part| error.contains(part)),
            "{error}"
        );
    };
    expect_error(&[], &["cannot read", "ngmi record"]);
    std::fs::write(&path, "something else").unwrap();
    expect_error(&[], &["neither a profile nor an event log"]);
    std::fs::write(&path, "{\"meta\":{}}").unwrap();
    expect_error(&[], &["not written by ngmi"]);
    log(&path, 0, Vec::new());
    expect_error(&[], &["no page fault", "--faults all"]);
    let refused = HookStatus {
        noun: "fault".into(),
        hook: "perf page-faults".into(),
        refused: Some("EACCES".into()),
        remedy: Some("run as root".into()),
    };
    log(&path, 0, vec![refused]);
    expect_error(&["--csv"], &["perf page-faults", "EACCES", "run as root"]);
    log(&path, 1, Vec::new());
    expect_error(&["--file", "libxul.so"], &["no file", "`libxul.so`", "without --file"]);
}
