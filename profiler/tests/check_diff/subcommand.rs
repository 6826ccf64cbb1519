//! The subcommands on a synthetic log and on another program's profile: exit status, files and
//! error messages.

use std::path::Path;
use std::process::{Command, Output};

use profiler::event::{Bio, Device, Event, HookStatus, Request};
use profiler_common::block::BIO_RECORDED;

use fixtures::log::{START, at, begin};

const DISK: Device = Device { major: 254, minor: 0 };

/// A log of one thread with `n` reads of 4 KiB.
pub fn log(path: &Path, n: u64) {
    log_with(path, n, &[]);
}

/// The same with other events.
pub fn log_with(path: &Path, n: u64, others: &[Event<'_>]) {
    let hook = HookStatus {
        noun: "block".into(),
        hook: "tp_btf/block_rq_complete".into(),
        refused: None,
        remedy: None,
    };
    let mut writer = begin(path, "reader", vec![hook]);
    for i in 0..n {
        let bio = Bio {
            at: at(i * 10_000),
            comm: b"reader".to_vec(),
            device: DISK,
            sector: i * 8,
            bytes: 4096,
            flags: BIO_RECORDED,
            ..Bio::default()
        };
        writer.event(&Event::Bio(bio)).unwrap();
        let request = Request {
            at: at(i * 10_000 + 5000),
            device: DISK,
            sector: i * 8,
            bytes: 4096,
            queued: Some(profiler::addr::Timestamp(START + i * 10_000)),
            depth: 1,
            ..Request::default()
        };
        writer.event(&Event::Request(request)).unwrap();
    }
    for event in others {
        writer.event(event).unwrap();
    }
    writer.finish().unwrap();
}

pub fn ngmi(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ngmi"));
    command.args(arguments).current_dir(folder).env_remove("NO_COLOR");
    command.output().unwrap()
}

/// Standard output and standard error, after a check of the exit status.
#[track_caller]
pub fn run_expecting(folder: &Path, code: i32, arguments: &[&str]) -> (String, String) {
    let output = ngmi(folder, arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, error) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{error}");
    (out, error)
}

fn folder(budget: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    log(&folder.path().join("new.events"), 100);
    log(&folder.path().join("old.events"), 50);
    std::fs::write(folder.path().join("budget.toml"), budget).unwrap();
    folder
}

#[test]
fn the_exit_status_gives_the_kind_of_failure() {
    let folder = folder("[total]\nbytes_read = 409600\n");
    let check = |code, more: &[&str]| run_expecting(folder.path(), code, &[&["check", "new.events"], more].concat());
    let budget = ["--budget", "budget.toml"];
    assert_eq!(check(0, &budget).0, "limits: 0 over, 1 within\n");
    std::fs::write(folder.path().join("budget.toml"), "[total]\nbytes_read = 409599\n").unwrap();
    let (out, _) = check(1, &[&budget[..], &["--junit", "check.xml", "--github"]].concat());
    assert!(
        out.contains("\nbytes read ") && out.contains("\n::error file=budget.toml,line=2,"),
        "{out}"
    );
    let document = std::fs::read_to_string(folder.path().join("check.xml")).unwrap();
    assert!(document.contains("failures=\"1\""), "{document}");
    let (json, _) = check(1, &[&budget[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"][0]["verdict"], serde_json::json!({ "over": 1 }));
    // The new log reads twice as much as the baseline.
    std::fs::write(
        folder.path().join("budget.toml"),
        "[total]\nbytes_read = { percent = 99 }\n",
    )
    .unwrap();
    let against = [&budget[..], &["--against", "old.events"]].concat();
    assert!(check(1, &against).0.contains("the baseline had 205 kB: 100.0 % more"));
    std::fs::write(
        folder.path().join("budget.toml"),
        "[total]\nbytes_read = { percent = 100 }\n",
    )
    .unwrap();
    check(0, &against);
    // The synthetic log has no hook for page faults, so their number is unknown.
    std::fs::write(folder.path().join("budget.toml"), "[total]\nfaults = 1\n").unwrap();
    assert!(check(2, &budget).0.contains("faults: unknown: not recorded"));
}

#[test]
fn invalid_input_is_reported_with_file_and_remedy() {
    let folder = folder("[total]\nfault = 1\n[file.x]\nwall_ms = 2\n");
    let wrong = |arguments: &[&str], parts: &[&str]| {
        let (_, error) = run_expecting(folder.path(), 2, &[&["check"], arguments].concat());
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    let budget = ["new.events", "--budget", "budget.toml"];
    wrong(
        &budget,
        &[
            "budget.toml: line 2: unknown metric `fault`",
            "budget.toml: line 4: `wall_ms`",
        ],
    );
    wrong(&["new.events"], &["--budget"]);
    wrong(
        &["new.events", "--budget", "none.toml"],
        &["cannot read the budget none.toml"],
    );
    wrong(
        &["nothing", "--against", "old.events"],
        &["cannot read nothing", "ngmi record"],
    );
    wrong(
        &["budget.toml", "--against", "old.events"],
        &["neither a profile nor an event log"],
    );
    wrong(&[".", "--against", "old.events"], &["no profile", "--runs"]);
    wrong(&["new.events", "--against", "old.events", "--allow=-3"], &["--allow"]);
    std::fs::write(folder.path().join("budget.toml"), "[total]\nfaults = 1\n").unwrap();
    let inputs = [
        ("new.events", "recording"),
        ("./old.events", "recording"),
        ("budget.toml", "budget"),
    ];
    for (output, what) in inputs {
        let before = std::fs::read(folder.path().join(output)).unwrap();
        let junit = ["--against", "old.events", "--junit", output];
        wrong(
            &[&budget[..], &junit].concat(),
            &[output, &format!("replace the {what}")],
        );
        assert_eq!(std::fs::read(folder.path().join(output)).unwrap(), before);
    }
    std::fs::write(folder.path().join("budget.toml"), "[total]\nfaults = {}\n").unwrap();
    wrong(&budget, &["limits nothing by itself", "--against"]);
    std::fs::write(folder.path().join("budget.toml"), vec![b' '; (1 << 20) + 1]).unwrap();
    wrong(&budget, &["longer than a MiB"]);
    std::fs::write(folder.path().join("budget.toml"), b"\xff").unwrap();
    wrong(&budget, &["cannot read the budget"]);
}

/// A profile of a thread that spent 1.5 ms in `hot` and 0.5 ms in `main`.
pub const OTHERS: &str = r#"{"meta":{"interval":1,"preprocessedProfileVersion":49,"importer":"samply",
    "sampleUnits":{"threadCPUDelta":"µs"}},"libs":[{"name":"demo","path":"/bin/demo"}],"threads":[{"name":"t","pid":"7","tid":8,
    "samples":{"stack":[1,0],"timeDeltas":[1,1],"threadCPUDelta":[1500,500]},"stringArray":["main","hot"],
    "frameTable":{"address":[16,32],"func":[0,1]},"funcTable":{"name":[0,1],"resource":[0,0]},"resourceTable":{"lib":[0]},
    "stackTable":{"prefix":[null,0],"frame":[0,1]}}]}"#;

#[test]
fn foreign_profiles_are_checked_by_cpu_time() {
    let folder = folder("[total]\ncpu_ms = 2\n[function.hot]\ncpu_ms = 1\n[thread.t]\ncpu_ms = 9\n");
    std::fs::write(folder.path().join("other.json"), OTHERS).unwrap();
    let budget = ["check", "other.json", "--budget", "budget.toml"];
    let (out, _) = run_expecting(folder.path(), 1, &budget);
    assert!(
        out.contains("function hot: cpu") && out.contains("1 over, 2 within"),
        "{out}"
    );
    std::fs::write(folder.path().join("budget.toml"), "[total]\nfaults = 1\n").unwrap();
    let (out, _) = run_expecting(folder.path(), 2, &budget);
    assert!(
        out.contains("written by samply") && out.contains("record with ngmi"),
        "{out}"
    );
}

#[test]
fn subcommands_name_what_foreign_profiles_lack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("other.json"), OTHERS).unwrap();
    std::fs::write(path.join("slower.json"), OTHERS.replace("[1500,500]", "[9000,500]")).unwrap();
    for arguments in [
        &["faults", "other.json"][..],
        &["faults", "other.json", "--html", "x.html"],
        &["waits", "other.json"],
        &["io", "other.json"],
        &["smaps", "other.json"],
        &["preload", "other.json", "-o", "list"],
        &["trim", "other.json", "--to", "1", "-o", "part.json.gz"],
    ] {
        let (out, error) = run_expecting(path, 1, arguments);
        assert!(
            error.contains("not written by ngmi") && out.is_empty(),
            "{arguments:?}: {error}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    // The CPU samples are present: they are compared, and show which functions ran.
    let (out, _) = run_expecting(path, 0, &["diff", "other.json", "slower.json"]);
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("hot cpu") && words.contains("written by samply"),
        "{out}"
    );
    let (_, error) = run_expecting(path, 1, &["order", "other.json", "--file", "nothing"]);
    assert!(
        error.contains("no file of the recording is called `nothing`"),
        "{error}"
    );
}
