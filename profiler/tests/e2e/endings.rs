//! How a recording ends: ngmi returns the command's status, Ctrl-C writes the profile, and no ending loses recorded data.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::ngmi::Running;
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome, Profile, assert_near, procfs};

/// Starts a recording of a program that runs for `ms` milliseconds, and waits until it has run for a while.
fn under_way(ngmi: Ngmi, ms: &str) -> (Running, u32) {
    let mut running = ngmi.program(Oracle::c("burn"), [ms]).start();
    let find = |running: &Running| {
        procfs::descendants(running.pid().as_raw().unsigned_abs())
            .into_iter()
            .find(|&pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("burn")))
    };
    running.wait_until("the program runs", |running| find(running).is_some());
    let burn = find(&running).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    (running, burn)
}

fn end(pid: u32) {
    let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL);
}

#[test]
fn the_exit_status_is_the_commands() {
    needs_capture!();
    let burn = Oracle::c("burn");
    for (argument, code) in [("0", 0), ("7", 7), ("255", 255), ("-15", 143), ("-9", 137)] {
        let outcome = Ngmi::record().program(&burn, ["100", argument]).run();
        outcome.expect_code(code);
        assert!(
            outcome.profile_at("out.json.gz").share("burn_here") > 0.8,
            "status {argument}"
        );
        outcome.expect_files(&["out.json.gz"]);
    }
}

#[test]
fn a_duration_ends_the_recording_and_not_before() {
    needs_capture!();
    let (running, burn) = under_way(Ngmi::record().args(["-d", "1.5"]), "30000");
    let outcome = running.wait();
    end(burn);
    let profile = outcome.profile_at("out.json.gz");
    let burn = profile.main_of("burn");
    let times = burn.samples.iter().map(|sample| sample.time);
    let (first, last) = (times.clone().fold(f64::MAX, f64::min), times.fold(0.0, f64::max));
    assert!(
        (1000.0..1700.0).contains(&(last - first)),
        "recorded for 1.5 s, seen from {first} to {last} ms"
    );
}

#[test]
fn the_first_interrupt_writes_the_profile() {
    needs_capture!();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (running, burn) = under_way(Ngmi::record(), "30000");
        running.signal(signal);
        let outcome = running.wait();
        end(burn);
        let profile = outcome.profile_at("out.json.gz");
        assert!(profile.main_of("burn").share("burn_here") > 0.9, "{signal}");
        outcome.expect_files(&["out.json.gz"]);
    }
}

/// Interrupts a recording, and again while its profile is being created. The converter is stopped, which makes the creation take
/// longer than a user takes for the second interrupt.
fn interrupted_twice() -> Outcome {
    let (running, burn) = under_way(Ngmi::record(), "30000");
    running.signal(Signal::SIGINT);
    let begin = Instant::now();
    let converts = |pid: &u32| procfs::command_line(*pid).iter().any(|word| word == "__convert");
    let recorder = running.pid().as_raw().unsigned_abs();
    let mut converter = None;
    while running.dir().join("out.json.gz").metadata().is_err() && begin.elapsed() < Duration::from_mins(1) {
        converter = procfs::descendants(recorder).into_iter().find(converts);
        if let Some(pid) = converter {
            let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGSTOP);
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(600));
    running.signal(Signal::SIGINT);
    let outcome = running.wait();
    // The converter survives if it was stopped before it requested to end with its recorder.
    if let Some(pid) = converter.filter(converts) {
        let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL);
    }
    end(burn);
    outcome
}

#[test]
fn the_second_interrupt_keeps_the_log_and_names_it() {
    needs_capture!();
    // On a busy machine, the profile may be finished before this test notices its creation: then try again.
    let mut log = None;
    let outcome = (0..5)
        .map(|_| interrupted_twice())
        .find(|outcome| outcome.stderr.contains("gave up"));
    let outcome = outcome.expect("the second interrupt ends the finishing");
    outcome.expect_code(130);
    for entry in std::fs::read_dir(outcome.dir.path()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if name.ends_with(".events") {
            log = Some(name);
        }
    }
    let log = log.unwrap_or_else(|| panic!("no event log is left: {}", outcome.stderr));
    assert!(
        outcome.stderr.contains(&log),
        "the message names {log}: {}",
        outcome.stderr
    );
    assert!(!outcome.file("out.json.gz").exists(), "no half-written profile");
    convert(&outcome.file(&log));
}

#[test]
fn a_killed_recorder_leaves_a_log_that_converts() {
    needs_capture!();
    let (running, burn) = under_way(Ngmi::record(), "30000");
    let children = procfs::descendants(running.pid().as_raw().unsigned_abs());
    let capture: Vec<u32> = children
        .into_iter()
        .filter(|&pid| procfs::command_line(pid).iter().any(|word| word == "__capture"))
        .collect();
    assert!(!capture.is_empty(), "the privileged helper is a child of the recorder");
    std::thread::sleep(Duration::from_millis(500));
    running.signal(Signal::SIGKILL);
    let outcome = running.wait();
    end(burn);
    assert_eq!(outcome.code(), 137);
    convert(&outcome.file("out.json.gz.events"));
    std::thread::sleep(Duration::from_secs(2));
    assert!(
        capture.into_iter().all(|pid| !procfs::is_alive(pid)),
        "no process keeps running as root"
    );
}

fn convert(log: &std::path::Path) {
    let outcome = Ngmi::subcommand("convert").arg(log).args(["-o", "out.json.gz"]).run();
    assert!(outcome.profile().main_of("burn").share("burn_here") > 0.9);
}

#[test]
fn a_kept_log_gives_the_same_profile_again() {
    needs_capture!();
    let outcome = Ngmi::record()
        .args(["--keep-events", "log"])
        .program(Oracle::c("split"), ["1000"])
        .run();
    let first = outcome.profile();
    let again = Ngmi::subcommand("convert")
        .arg(outcome.file("log"))
        .args(["-o", "out.json.gz"])
        .run()
        .profile();
    let (first, again) = (first.main_of("split"), again.main_of("split"));
    assert_eq!(first.samples.len(), again.samples.len());
    for (a, b) in first.samples.iter().zip(&again.samples) {
        assert_eq!((a.functions(), a.time.to_bits()), (b.functions(), b.time.to_bits()));
    }
}

#[test]
fn a_kept_log_needs_neither_the_binaries_nor_their_names() {
    needs_capture!();
    let ngmi = Ngmi::record().args(["--keep-events", "log"]);
    let split = Oracle::c("split").copied(&ngmi.dir().join("gone-soon"));
    let outcome = ngmi.program(&split, ["800"]).run();
    outcome.expect_code(0);
    let first = outcome.profile();
    std::fs::remove_file(&split.path).unwrap();
    let profile = Ngmi::subcommand("convert")
        .arg(outcome.file("log"))
        .args(["-o", "out.json.gz"])
        .run()
        .profile();
    // The shares of the parts vary on a busy machine, so compare with the names found while the file still existed.
    let share = |profile: &Profile| profile.main_of("gone-soon").share("takes_three_parts");
    assert!(share(&first) > 0.6, "{}", share(&first));
    assert_near("the share without the file", share(&profile), share(&first), 0.001);
}

#[test]
fn nothing_is_lost_in_a_quiet_recording() {
    needs_capture!();
    let outcome = Ngmi::record()
        // Other tests keep the disks busy, and a tracepoint occasionally drops a context switch while their recorders start or stop.
        .args(["--block", "off", "--off-cpu", "off"])
        .arg("--fail-on-loss")
        .program(Oracle::c("threads"), [""; 0])
        .run();
    outcome.expect_code(0);
    assert!(
        outcome.stderr.lines().count() <= 14,
        "the summary has at most twelve lines: {}",
        outcome.stderr
    );
}

#[test]
fn every_profile_passes_the_lint() {
    needs_capture!();
    let outcome = Ngmi::record().program(Oracle::c("threads"), [""; 0]).run();
    outcome.expect_code(0);
    Ngmi::subcommand("lint")
        .arg(outcome.file("out.json.gz"))
        .run()
        .expect_code(0);
}
