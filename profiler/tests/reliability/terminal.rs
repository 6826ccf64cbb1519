//! A terminal that disappears during a recording, and repeated requests to end.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::OpenptyResult;
use nix::sys::signal::Signal;

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Oracle, Profile, ngmi, procfs};
use crate::stops::Recorder;

/// CPU time that the program uses unless it is killed, in ms.
const BURN_MS: f64 = 30_000.0;

/// A program that leads a session in a separate terminal. `None`, and the running test is skipped, if that is
/// impossible here.
pub fn in_terminal(words: &[&str], folder: &Path) -> Option<(Child, OpenptyResult)> {
    let terminal = nix::pty::openpty(None, None).unwrap();
    // A process that inherited the other side would keep the terminal alive.
    for end in [&terminal.master, &terminal.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    }
    let side = || Stdio::from(terminal.slave.try_clone().unwrap());
    let child = Command::new("setsid")
        .args(["--ctty", "--wait"])
        .args(words)
        .current_dir(folder)
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn();
    if child.is_err() {
        skip("setsid is not installed");
    }
    Some((child.ok()?, terminal))
}

/// Waits until a recording of `burn` has run for a while.
fn under_way(child: &Child, end: Instant) {
    let burns = || {
        let all = procfs::descendants(child.id()).into_iter();
        let mut exes = all.filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok());
        exes.any(|exe| exe.ends_with("burn"))
    };
    while !burns() {
        assert!(Instant::now() < end, "the program does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(700));
}

/// Closes the terminal of a recording of `burn` that has run for a while, and waits for its profile.
fn close((mut child, terminal): (Child, OpenptyResult), folder: &Path) {
    let end = Instant::now() + Duration::from_mins(1);
    under_way(&child, end);
    // The last holder of the other side: the kernel sends SIGHUP to the foreground process group.
    drop(terminal);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it does not end: a server without a terminal?");
        std::thread::sleep(Duration::from_millis(10));
    }
    let profile = folder.join("out.json.gz");
    while !profile.exists() {
        let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
        assert!(Instant::now() < end, "no profile: {left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let profile = Profile::read(&profile);
    let burn = profile.main_of("burn");
    assert!(burn.share("burn_here") > 0.9);
    let cpu_ms = burn.cpu_ms();
    assert!(
        cpu_ms < BURN_MS * 0.9,
        "it ended by itself, not with its terminal: {cpu_ms} ms"
    );
}

/// The typed command line that records `burn`, with `then` for its profile; single quotes are enough for each word.
fn recording(then: &str) -> [String; 7] {
    let words = [
        ngmi::binary().display().to_string(),
        "record".into(),
        then.into(),
        "-oout.json.gz".into(),
        "--".into(),
        Oracle::c("burn").path.display().to_string(),
        BURN_MS.to_string(),
    ];
    assert!(words.iter().all(|word| !word.contains('\'')));
    words
}

/// It would be opened: without a terminal no user is there to look at it, or to stop the server.
#[test]
fn the_terminal_dies_and_the_profile_is_written() {
    needs_capture!();
    let dir = tempfile::tempdir().unwrap();
    let words = recording("--no-open");
    let Some(running) = in_terminal(&words.each_ref().map(String::as_str), dir.path()) else {
        return;
    };
    close(running, dir.path());
}

/// Two hangups: the shell's for its jobs, and the kernel's for the foreground when the shell has ended.
#[test]
fn the_window_of_a_shell_is_closed_and_the_profile_is_written() {
    needs_capture!();
    let dir = tempfile::tempdir().unwrap();
    let shell = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
    if Command::new("bash").arg("--version").output().is_err() {
        skip("bash is not installed");
        return;
    }
    let Some((child, terminal)) = in_terminal(&shell, dir.path()) else {
        return;
    };
    let typed = recording("--save-only").map(|word| format!("'{word}'")).join(" ");
    let mut keyboard = File::from(terminal.master.try_clone().unwrap());
    writeln!(keyboard, "{typed}").unwrap();
    drop(keyboard);
    close((child, terminal), dir.path());
}

/// `timeout -s INT` interrupts its child, and then the child's group.
#[test]
fn timeout_writes_the_profile_with_any_signal() {
    needs_capture!();
    for signal in ["INT", "TERM"] {
        let dir = tempfile::tempdir().unwrap();
        let words = recording("--save-only");
        let mut timeout = Command::new("timeout");
        timeout.args(["-s", signal, "600"]).args(words).current_dir(dir.path());
        let Ok(timeout) = timeout.stderr(Stdio::piped()).spawn() else {
            skip("timeout is not installed");
            return;
        };
        under_way(&timeout, Instant::now() + Duration::from_mins(1));
        // Its own timer's signal: the time has passed.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(timeout.id()).unwrap());
        nix::sys::signal::kill(pid, Signal::SIGALRM).unwrap();
        let outcome = timeout.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        assert!(!stderr.contains("gave up"), "{signal}: {stderr}");
        let profile = Profile::read(&dir.path().join("out.json.gz"));
        assert!(profile.main_of("burn").share("burn_here") > 0.9, "{signal}");
    }
}

/// SIGTERM and SIGINT as `timeout` sends them, to its child and then to the group; SIGHUP any number of times.
#[test]
fn a_repeated_request_is_not_a_second_ctrl_c() {
    needs_capture!();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let recorder = Recorder::start(Ngmi::record(), "30000");
        std::thread::sleep(Duration::from_millis(500));
        recorder.running.signal(signal);
        // Two that are pending at the same time are one to the kernel.
        std::thread::sleep(Duration::from_millis(20));
        recorder.running.signal(signal);
        if signal == Signal::SIGHUP {
            let end = Instant::now() + Duration::from_mins(1);
            while !recorder.running.stderr().contains("finishing;") && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            recorder.running.signal(signal);
        }
        let outcome = recorder.running.wait();
        outcome.expect_files(&["out.json.gz"]);
        assert!(!outcome.stderr.contains("gave up"), "{signal}: {}", outcome.stderr);
        assert!(outcome.profile_at("out.json.gz").main_of("burn").share("burn_here") > 0.9);
    }
}
