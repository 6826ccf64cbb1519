//! The subcommand on a synthetic log: what it prints, and its error messages.

use std::path::Path;
use std::process::{Command, Output};

use profiler::addr::Timestamp;
use profiler::event::{Bio, Device, DeviceName, Event, HookStatus, Request};
use profiler_common::block::BIO_RECORDED;

use fixtures::log::{START, at, begin};

const DISK: Device = Device { major: 254, minor: 0 };

/// A log of one thread with `n` reads of 4 KiB, one every 10 µs, 5 µs long each.
fn log(path: &Path, n: u64, hooks: Vec<HookStatus>) {
    let mut writer = begin(path, "reader", hooks);
    let mut write = |event| writer.event(&event).unwrap();
    for i in 0..n {
        write(Event::Bio(Bio {
            at: at(i * 10_000),
            comm: b"reader".to_vec(),
            device: DISK,
            sector: i * 8,
            bytes: 4096,
            flags: BIO_RECORDED,
            ..Bio::default()
        }));
        write(Event::Request(Request {
            at: at(i * 10_000 + 5000),
            device: DISK,
            sector: i * 8,
            bytes: 4096,
            queued: Some(Timestamp(START + i * 10_000)),
            issued: Some(Timestamp(START + i * 10_000 + 1000)),
            depth: 1,
            ..Request::default()
        }));
    }
    write(Event::DeviceName(DeviceName {
        device: DISK,
        name: "vda".into(),
        before: vec![5; 17],
        after: [5 + n, 5, 5 + 8 * n].into_iter().chain([5; 14]).collect(),
    }));
    writer.finish().unwrap();
}

fn output(arguments: &[&str], input: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    command.arg("io").arg(input).args(arguments).env_remove("NO_COLOR");
    command.output().unwrap()
}

#[test]
fn a_log_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reader.events");
    log(&path, 1000, Vec::new());
    let csv = String::from_utf8(output(&["--csv"], &path).stdout).unwrap();
    assert_eq!(csv.lines().count(), 1001);
    assert!(
        csv.lines()
            .nth(2)
            .unwrap()
            .starts_with("10000,7,7,vda,8,read,4096,,,1000,4000,,reader,reader,15000,"),
        "{:?}",
        csv.lines().nth(2)
    );
    let rows = String::from_utf8(output(&["--ndjson", "--from", "0.005"], &path).stdout).unwrap();
    let first: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!(
        (rows.lines().count(), &first["time_ns"], &first["file"]),
        (500, &5_000_000.into(), &serde_json::Value::Null)
    );
    let json: serde_json::Value = serde_json::from_slice(&output(&["--json"], &path).stdout).unwrap();
    assert_eq!(
        (&json["requests"], &json["totals"]["read_bytes"]),
        (&1000.into(), &4_096_000.into())
    );
    assert_eq!(json["by_device"][0]["service"]["total_ns"], 4_000_000);
    let tables = String::from_utf8(output(&[], &path).stdout).unwrap();
    assert!(
        tables.contains("account:  vda matches its own counters")
            && tables.contains("requests: 1,000, 4.10 MB read, 0 written"),
        "{tables}"
    );
    assert!(
        !tables.contains('\u{1b}') && tables.lines().all(|line| line.chars().count() <= 80),
        "{tables}"
    );
}

#[test]
fn a_damaged_log_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reader.events");
    log(&path, 10, Vec::new());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend([0xa5; 100]);
    std::fs::write(&path, bytes).unwrap();
    let output = output(&["--csv"], &path);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("reader.events: the event log is damaged or cut off (1 log chunk damaged)"),
        "{said}"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 11);
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
    log(&path, 0, Vec::new());
    expect_error(&[], &["no block request", "record again"]);
    let hook = |refused: Option<&str>| HookStatus {
        noun: "block".into(),
        hook: "tp_btf/block_rq_complete".into(),
        refused: refused.map(Into::into),
        remedy: Some("run as root".into()),
    };
    log(&path, 0, vec![hook(Some("EACCES"))]);
    expect_error(&["--csv"], &["block_rq_complete", "EACCES", "run as root"]);
    log(&path, 0, vec![hook(None)]);
    expect_error(&[], &["everything was in memory", "--cold"]);
    log(&path, 1, Vec::new());
    expect_error(
        &["--device", "sda"],
        &["no device", "`sda`", "ngmi io FILE` without --device"],
    );
}
