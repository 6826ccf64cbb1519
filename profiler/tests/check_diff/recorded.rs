//! Real recordings: a seeded storm and wasted reads are found by name, repeated runs end as they
//! should, and the recipe in docs/check.md works.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::ngmi::binary;
use crate::harness::page::page_size;
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome};

/// A folder on a file system with a page cache: /tmp is in memory on most machines.
fn scratch() -> tempfile::TempDir {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    tempfile::Builder::new().prefix("decide-").tempdir_in(place).unwrap()
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", outcome.stdout, outcome.stderr))
}

/// Four runs of the oracle, as profiles in a separate folder.
fn set(folder: &Path, copies: u32, touches: u32) {
    std::fs::create_dir(folder).unwrap();
    let file = folder.join("seeded.bin");
    let outcome = Ngmi::subcommand("record")
        .args(["--runs", "4", "--faults", "all", "-o"])
        .arg(folder.join("run.json.gz"))
        .program(
            Oracle::c("seeded"),
            [
                file.into_os_string(),
                copies.to_string().into(),
                touches.to_string().into(),
            ],
        )
        .run();
    outcome.expect_code(0);
    outcome.expect_no_panic();
}

#[test]
fn a_seeded_storm_and_wasted_reads_are_found_by_name() {
    needs_capture!();
    let scratch = scratch();
    let [calm, storm] = ["calm", "storm"].map(|name| scratch.path().join(name));
    set(&calm, 1, 0);
    set(&storm, 3000, 16);
    let diff = Ngmi::subcommand("diff").args([&calm, &storm]).run();
    diff.expect_code(0);
    let lines: Vec<&str> = diff.stdout.lines().collect();
    let below = |title: &str| {
        let at = lines.iter().position(|line| line.starts_with(title));
        lines[at.unwrap_or_else(|| panic!("{title}: {}", diff.stdout)) + 1..]
            .iter()
            .take(4)
    };
    // Four runs are few: some rows have a question mark, but none is noise.
    let is_named = |line: &str, name: &str| {
        ["  ", "? "]
            .into_iter()
            .any(|mark| line.starts_with(&format!("{mark}{name} ")))
    };
    assert!(
        below("by function").any(|line| is_named(line, "storm_of_copies")),
        "{}",
        diff.stdout
    );
    assert!(
        below("by file").any(|line| is_named(line, "…/storm/seeded.bin")),
        "{}",
        diff.stdout
    );
    // Each page is copied once, so the answer is known. The recording may also contain pages of
    // others.
    let touched = 16 * page_size();
    let budget = format!(
        "[function.storm_of_copies]\ncow_pages = 2999\n[file.\"seeded.bin\"]\nwasted_readahead_bytes = 0\nbytes_read = {}\n",
        touched - 1
    );
    std::fs::write(scratch.path().join("budget.toml"), budget).unwrap();
    let check = Ngmi::subcommand("check")
        .arg(&storm)
        .arg("--budget")
        .arg(scratch.path().join("budget.toml"));
    let outcome = check.arg("--json").run();
    let report = json(&outcome);
    let row = |metric: &str| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().find(|row| row["metric"] == metric).unwrap().clone()
    };
    assert_eq!(row("cow_pages")["measured"], 3000, "{report}: {:?}", accounts(&storm));
    assert_eq!(row("cow_pages")["verdict"], serde_json::json!({ "over": 1 }));
    let waste = &row("wasted_readahead_bytes");
    // A file system without read-ahead wastes no reads.
    if row("bytes_read")["measured"].as_u64().unwrap() > touched {
        assert!(waste["measured"].as_u64().unwrap() > 0, "{report}");
    }
    outcome.expect_code(1);
}

/// What each recording of a folder reports about its faults, including any that are missing.
fn accounts(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let recordings = files.filter(|file| file.extension().is_some_and(|end| end == "gz"));
    let account = |file: PathBuf| {
        let report = json(&Ngmi::subcommand("faults").arg(&file).arg("--json").run());
        format!(
            "{}, {}, {}",
            report["by_class"], report["by_function"], report["accounts"]
        )
    };
    recordings.map(account).collect()
}

/// The first ten lines.
fn first_lines(text: &str) -> Vec<&str> {
    text.lines().take(10).collect()
}

#[test]
fn findings_are_named_in_the_first_lines() {
    needs_capture!();
    let scratch = scratch();
    let record = |name: &str, copies: &str, touches: &str| {
        let file = scratch.path().join(name).into_os_string();
        let record = Ngmi::record().args(["--keep-events", "log"]);
        let outcome = record
            .program(Oracle::c("seeded"), [file, copies.into(), touches.into()])
            .run();
        outcome.expect_code(0);
        outcome
    };
    let outcome = record("seeded.bin", "3000", "16");
    let of = |input: &str| Ngmi::subcommand("faults").arg(outcome.file(input)).run().stdout;
    let summary = format!("{}{}", outcome.stdout, outcome.stderr);
    let (profile, log) = (of("out.json.gz"), of("log"));
    for text in [&summary, &profile, &log] {
        let lines = first_lines(text);
        let copied = lines.iter().find(|line| line.starts_with("copied:"));
        let copied = copied.unwrap_or_else(|| panic!("{text}"));
        assert!(copied.contains("storm_of_copies in seeded"), "{text}");
    }
    let faults = json(&Ngmi::subcommand("faults").arg(outcome.file("log")).arg("--json").run());
    let rows = faults["pages"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["file"].as_str().unwrap().ends_with("/seeded.bin"));
    let waste = row.map_or(0, |row| row["wasted_bytes"].as_u64().unwrap());
    if waste < 1 << 20 {
        println!("skipped: this file system reads too little ahead to waste a MiB: {waste} bytes");
    } else {
        for text in [&summary, &profile, &log] {
            let lines = first_lines(text);
            let wasted = lines.iter().find(|line| line.starts_with("wasted:"));
            let wasted = wasted.unwrap_or_else(|| panic!("{text}"));
            assert!(wasted.contains("seeded.bin by touch_far_apart"), "{text}");
        }
        let findings = faults["findings"].as_array().unwrap();
        let wasted = findings.iter().find(|one| one["cause"] == "wasted-read-ahead");
        assert_eq!(wasted.unwrap()["bytes"], waste, "{faults}");
    }
    // Without a storm, none is reported.
    let calm = record("calm.bin", "1", "0");
    let summary = format!("{}{}", calm.stdout, calm.stderr);
    assert!(
        !summary.contains("copied:") && !summary.contains("wasted:"),
        "{summary}"
    );
}

#[test]
fn metrics_match_the_other_subcommands() {
    needs_capture!();
    let scratch = scratch();
    let outcome = Ngmi::record()
        .args(["--keep-events", "log"])
        .program(Oracle::c("faults/forked"), [scratch.path()])
        .run();
    outcome.expect_code(0);
    let log = outcome.file("log");
    let faults = json(&Ngmi::subcommand("faults").arg(&log).arg("--json").run());
    let budget = scratch.path().join("budget.toml");
    std::fs::write(
        &budget,
        "[total]\nfaults = 0\nmajor_faults = 0\nfault_wait_ms = 0\ncow_pages = 0\n",
    )
    .unwrap();
    let check = json(
        &Ngmi::subcommand("check")
            .arg(&log)
            .arg("--budget")
            .arg(&budget)
            .arg("--json")
            .run(),
    );
    let measured = |metric: &str| {
        let rows = check["rows"].as_array().unwrap();
        rows.iter().find(|row| row["metric"] == metric).unwrap()["measured"]
            .as_u64()
            .unwrap()
    };
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
    let totals = &faults["totals"];
    assert_eq!(
        measured("faults"),
        number(&totals["faults"]) - number(&totals["failed"])
    );
    assert_eq!(measured("major_faults"), number(&totals["major"]));
    assert_eq!(measured("fault_wait_ns"), number(&totals["time_ns"]));
    let classes = faults["by_class"].as_array().unwrap().iter();
    let copies = classes
        .filter(|row| row["class"] == "file-cow" || row["class"] == "cow")
        .map(|row| number(&row["faults"]));
    let copies: u64 = copies.sum();
    assert_eq!(measured("cow_pages"), copies);
    // The child copies 16 pages, its parent 32.
    assert!(copies >= 48, "{check}");
}

fn runs(arguments: &[&str], program: &str) -> Outcome {
    let record = Ngmi::subcommand("record")
        .args(["--runs", "3", "-o", "run.json.gz"])
        .args(arguments);
    record.program("/bin/sh", ["-c", program]).run()
}

#[test]
fn runs_are_summarized() {
    needs_capture!();
    let outcome = runs(&["--json", "--cold"], "exit 0");
    outcome.expect_code(0);
    let report = json(&outcome);
    assert_eq!(
        (report["runs"].as_array().unwrap().len(), &report["asked"]),
        (3, &3.into())
    );
    let wall = report["spreads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["metric"] == "wall_ns")
        .unwrap();
    let of = |key: &str| wall[key].as_u64().unwrap();
    assert!(
        0 < of("min") && of("min") <= of("median") && of("median") <= of("max"),
        "{wall}"
    );
    for (run, number) in report["runs"].as_array().unwrap().iter().zip(1..) {
        assert_eq!((&run["number"], &run["cache"]["cold"]), (&number.into(), &true.into()));
        assert!(outcome.file(&format!("run.{number}.json.gz")).exists());
    }
    assert!(!outcome.file("run.json.gz").exists());
}

#[test]
fn a_failing_command_ends_the_runs_by_default() {
    needs_capture!();
    let outcome = runs(&[], "exit 3");
    outcome.expect_code(3);
    assert!(
        outcome.stderr.contains("1 of 3 runs of") && outcome.stderr.contains("--ignore-failure"),
        "{}",
        outcome.stderr
    );
    assert!(!outcome.file("run.2.json.gz").exists());
    let outcome = runs(&["--ignore-failure"], "exit 3");
    outcome.expect_code(0);
    assert!(outcome.stderr.contains("\n3 runs of"), "{}", outcome.stderr);
    for (arguments, part) in [
        (&["--runs", "0"][..], "from 1 to 50"),
        (&["--runs", "2", "-a"], "leave out -a and -p"),
    ] {
        let outcome = Ngmi::subcommand("record")
            .args(arguments)
            .program("true", [""; 0])
            .run();
        outcome.expect_code(125);
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}

#[test]
fn an_interrupt_ends_and_summarizes_the_runs() {
    needs_capture!();
    // The first run ends at once, the second waits to be interrupted.
    let scratch = scratch();
    let program = "test -e \"$0/first\" || { touch \"$0/first\"; exit 0; }; touch \"$0/second\"; exec sleep 60";
    let arguments = [Path::new("-c"), Path::new(program), scratch.path()];
    let record = Ngmi::subcommand("record").args(["--runs", "3", "-o", "run.json.gz"]);
    let mut running = record.program("/bin/sh", arguments).start();
    running.wait_until("the second run", |_| scratch.path().join("second").exists());
    running.signal(nix::sys::signal::Signal::SIGINT);
    let outcome = running.wait();
    outcome.expect_code(130);
    assert!(
        outcome.stderr.contains("1 of 3 runs of") && outcome.stderr.contains("run 2 was interrupted"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.file("run.2.json.gz").exists() && !outcome.file("run.3.json.gz").exists());
}

/// The text of the first code block in this language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let start = page.split_once(&format!("```{language}\n")).unwrap().1;
    start.split_once("\n```").unwrap().0
}

#[test]
fn the_recipe_for_ci_works() {
    needs_capture!();
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/check.md")).unwrap();
    let scratch = scratch();
    let place = scratch.path();
    std::fs::write(place.join("budget.toml"), block(&page, "toml")).unwrap();
    std::fs::copy("/bin/true", place.join("app")).unwrap();
    let tools = place.join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::os::unix::fs::symlink(binary(), tools.join("ngmi")).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let script = format!("set -e\n{}", block(&page, "sh"));
    let mut command = Command::new("sh");
    let output = command
        .args(["-c", &script])
        .current_dir(place)
        .env("PATH", path)
        // The tests may run under sudo, and then the recorder would belong to the user who ran
        // sudo.
        .env_remove("SUDO_UID")
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}{error}");
    assert!(
        report.contains("0 over") && report.contains("::warning file=budget.toml,line="),
        "{report}"
    );
    let document = std::fs::read_to_string(place.join("check.xml")).unwrap();
    assert!(document.contains("failures=\"0\" errors=\"0\""), "{document}");
}
