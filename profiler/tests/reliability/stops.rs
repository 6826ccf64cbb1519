//! Processes that are killed or stopped: the recorder, its privileged helper, the command, the server.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::ngmi::Running;
use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome, ngmi, procfs};

/// A recording of `burn` in progress.
pub struct Recorder {
    pub running: Running,
    pub folder: std::path::PathBuf,
    /// The privileged helper.
    pub capture: u32,
    /// The command.
    pub burn: u32,
}

impl Recorder {
    /// Starts, and waits until the command runs.
    pub fn start(ngmi: Ngmi, ms: &str) -> Self {
        let ngmi = ngmi.program(Oracle::c("burn"), [ms]);
        let folder = ngmi.dir().to_owned();
        let mut running = ngmi.start();
        let burn = wait_for_program(&mut running, "burn");
        let capture = capture_of(&running);
        std::thread::sleep(Duration::from_millis(300));
        Self {
            running,
            folder,
            capture,
            burn,
        }
    }

    /// Waits for the command's last output.
    pub fn wait_for_burn(&mut self) {
        let stdout = self.folder.join("stdout");
        self.running
            .wait_until("the command's end", |_| ngmi::read_lossy(&stdout).contains("cpu_ns="));
    }
}

fn find(running: &Running, is: impl Fn(u32) -> bool) -> Option<u32> {
    let all = procfs::descendants(running.pid().as_raw().unsigned_abs());
    all.into_iter().find(|&pid| is(pid))
}

/// Waits until a program of this name runs.
pub fn wait_for_program(running: &mut Running, name: &str) -> u32 {
    let is = |pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with(name));
    running.wait_until("the program runs", |running| find(running, is).is_some());
    find(running, is).unwrap()
}

/// The privileged helper.
pub fn capture_of(running: &Running) -> u32 {
    let is_capture = |pid| procfs::command_line(pid).iter().any(|word| word == "__capture");
    find(running, is_capture).expect("the privileged helper is a child of the recorder")
}

pub fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

/// The profile has all of the `ms` of CPU time that the command was to use: no interval is missing. (Its own clock
/// includes what its process used before it was released.)
#[track_caller]
pub fn expect_all_time(outcome: &Outcome, ms: f64) {
    let recorded = outcome.profile().main_of("burn").cpu_ms();
    assert!(
        recorded >= ms * 0.98,
        "{recorded} of {ms} ms of CPU time: {}",
        outcome.stderr
    );
}

#[test]
fn the_capture_process_is_stopped() {
    needs_capture!();
    let mut recorder = Recorder::start(Ngmi::record(), "1500");
    send(recorder.capture, Signal::SIGSTOP);
    recorder.wait_for_burn();
    send(recorder.capture, Signal::SIGCONT);
    expect_all_time(&recorder.running.wait(), 1500.0);
}

#[test]
fn the_recorder_is_stopped() {
    needs_capture!();
    let mut recorder = Recorder::start(Ngmi::record(), "1500");
    recorder.running.signal(Signal::SIGSTOP);
    recorder.wait_for_burn();
    recorder.running.signal(Signal::SIGCONT);
    let outcome = recorder.running.wait();
    outcome.expect_files(&["out.json.gz"]);
    expect_all_time(&outcome, 1500.0);
}

#[test]
fn all_processes_are_stopped_as_by_ctrl_z() {
    needs_capture!();
    let recorder = Recorder::start(Ngmi::record(), "1000");
    let all = [
        recorder.running.pid().as_raw().unsigned_abs(),
        recorder.capture,
        recorder.burn,
    ];
    for pid in all {
        send(pid, Signal::SIGSTOP);
    }
    std::thread::sleep(Duration::from_millis(700));
    for pid in all {
        send(pid, Signal::SIGCONT);
    }
    let outcome = recorder.running.wait();
    expect_all_time(&outcome, 1000.0);
    let profile = outcome.profile();
    let (from, to) = profile.main_of("burn").life;
    let life = to.expect("burn ended") - from;
    assert!(life >= 1000.0 + 700.0, "the pause is part of its lifetime: {life} ms");
}

#[test]
fn the_command_is_stopped() {
    needs_capture!();
    let recorder = Recorder::start(Ngmi::record(), "1000");
    send(recorder.burn, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(700));
    send(recorder.burn, Signal::SIGCONT);
    let outcome = recorder.running.wait();
    outcome.expect_code(0);
    expect_all_time(&outcome, 1000.0);
    let (from, to) = outcome.profile().main_of("burn").life;
    let life = to.expect("burn ended") - from;
    assert!(life >= 1000.0 + 700.0, "the pause is part of its lifetime: {life} ms");
}

#[test]
fn the_command_is_killed() {
    needs_capture!();
    let recorder = Recorder::start(Ngmi::record(), "30000");
    send(recorder.burn, Signal::SIGKILL);
    let outcome = recorder.running.wait();
    outcome.expect_code(137);
    outcome.expect_files(&["out.json.gz"]);
    assert!(outcome.profile_at("out.json.gz").main_of("burn").share("burn_here") > 0.9);
}

#[test]
fn the_capture_process_is_killed() {
    needs_capture!();
    let recorder = Recorder::start(Ngmi::record(), "30000");
    std::thread::sleep(Duration::from_millis(700));
    send(recorder.capture, Signal::SIGKILL);
    let outcome = recorder.running.wait();
    let alive = procfs::is_alive(recorder.burn);
    send(recorder.burn, Signal::SIGKILL);
    assert!(alive, "the command is left alone");
    outcome.expect_code(125);
    let pid = recorder.burn.to_string();
    for word in [
        "the privileged helper is gone",
        "out.json.gz.events",
        "ngmi convert",
        "is still running",
        &pid,
    ] {
        assert!(outcome.stderr.contains(word), "{word:?}: {}", outcome.stderr);
    }
    expect_convertible(&outcome.file("out.json.gz.events"));
}

#[test]
fn both_processes_are_killed() {
    needs_capture!();
    let recorder = Recorder::start(Ngmi::record(), "30000");
    std::thread::sleep(Duration::from_millis(700));
    send(recorder.capture, Signal::SIGKILL);
    recorder.running.signal(Signal::SIGKILL);
    let outcome = recorder.running.wait();
    send(recorder.burn, Signal::SIGKILL);
    expect_convertible(&outcome.file("out.json.gz.events"));
}

/// The profile contains everything that reached the log up to a quarter of a second before the end.
fn expect_convertible(log: &Path) {
    let outcome = Ngmi::subcommand("convert").arg(log).args(["-o", "out.json.gz"]).run();
    let profile = outcome.profile();
    let burn = profile.main_of("burn");
    assert!(
        burn.share("burn_here") > 0.9 && burn.samples.len() > 50,
        "{} samples",
        burn.samples.len()
    );
}

#[test]
fn the_converter_is_killed() {
    needs_capture!();
    let is_it = |pid| procfs::command_line(pid).iter().any(|word| word == "__convert");
    // It may end before it is found.
    for _ in 0..20 {
        let running = Ngmi::record().program(Oracle::c("burn"), ["300"]).start();
        let mut found = None;
        while found.is_none() && procfs::is_alive(running.pid().as_raw().unsigned_abs()) {
            std::thread::sleep(Duration::from_millis(1));
            found = find(&running, is_it);
        }
        if let Some(pid) = found {
            let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL);
        }
        let outcome = running.wait();
        if outcome.code() == 0 {
            continue;
        }
        outcome.expect_code(125);
        outcome.expect_files(&["out.json.gz.events"]);
        for word in ["SIGKILL", "out.json.gz.events", "ngmi convert"] {
            assert!(outcome.stderr.contains(word), "{word:?}: {}", outcome.stderr);
        }
        expect_convertible(&outcome.file("out.json.gz.events"));
        return;
    }
    panic!("it ended before it could be killed, twenty times");
}

#[test]
fn the_server_is_killed() {
    needs_capture!();
    let ngmi = Ngmi::subcommand("record").args(["-o", "out.json.gz", "--no-open"]);
    let folder = ngmi.dir().to_owned();
    let mut running = ngmi.program(Oracle::c("burn"), ["300"]).start();
    running.wait_until("the link", |_| {
        ngmi::read_lossy(&folder.join("stderr")).contains("symbolServer=")
    });
    running.signal(Signal::SIGKILL);
    let outcome = running.wait();
    outcome.expect_files(&["out.json.gz"]);
    assert!(outcome.profile_at("out.json.gz").main_of("burn").share("burn_here") > 0.8);
}
