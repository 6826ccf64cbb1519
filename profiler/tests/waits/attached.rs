//! Attaching to a hanging program: no thread runs during the recording, but each wait has its stack, call, file and reason.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

use crate::harness::skip::{self, needs_capture};
use crate::harness::{Ngmi, Oracle, Outcome};
use crate::run::scratch;

/// What a thread of the oracle reports about itself.
#[derive(Debug, Deserialize)]
struct Sleeper {
    tid: u32,
    function: String,
    reason: String,
    call: String,
    file: String,
}

/// A row of `ngmi waits --ndjson`.
#[derive(Debug, Deserialize)]
struct Wait {
    tid: u32,
    time_ns: u64,
    off_ns: u64,
    reason: String,
    call: Option<String>,
    file: Option<String>,
    path: Option<String>,
    stack: Option<String>,
    stack_complete: bool,
}

/// The running oracle, which stops with the test.
struct Hung {
    child: Child,
    sleepers: Vec<Sleeper>,
    _folder: tempfile::TempDir,
}

impl Hung {
    fn start() -> Self {
        let folder = scratch();
        let program = Oracle::c("waits/hung").path;
        let mut child = Command::new(program)
            .arg(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The oracle closes its output when all threads sleep.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let sleepers = lines
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect();
        Self {
            child,
            sleepers,
            _folder: folder,
        }
    }

    /// Attaches for a second and returns the printed text and the waits.
    fn record(&self) -> (Outcome, Vec<Wait>) {
        let pid = self.child.id().to_string();
        let outcome = Ngmi::record()
            .args(["-d", "1", "--keep-events", "log", "-p", &pid])
            .run();
        outcome.expect_code(0);
        let said = Ngmi::subcommand("waits").arg(outcome.file("log")).arg("--ndjson").run();
        let rows = serde_json::Deserializer::from_str(&said.stdout).into_iter();
        (outcome, rows.map(Result::unwrap).collect())
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_program_that_hangs() {
    needs_capture!();
    let hung = Hung::start();
    let (outcome, waits) = hung.record();
    assert_eq!(hung.sleepers.len(), 7);
    for sleeper in &hung.sleepers {
        let own: Vec<&Wait> = waits.iter().filter(|wait| wait.tid == sleeper.tid).collect();
        let [wait] = own[..] else {
            panic!("{sleeper:?}: {own:#?}")
        };
        // From the start of the recording to its end, as its options determine.
        assert!(wait.time_ns == 0 && wait.off_ns >= 1_000_000_000, "{wait:?}");
        assert_eq!(wait.reason, sleeper.reason, "{wait:?}");
        assert_eq!(wait.call.as_deref(), Some(&*sleeper.call), "{wait:?}");
        let file = wait.file.as_deref().or(wait.path.as_deref()).unwrap_or_default();
        assert_eq!(file, sleeper.file, "{wait:?}");
        let stack: Vec<&str> = wait.stack.as_deref().unwrap_or_default().split(';').collect();
        let place = stack.iter().position(|function| *function == sleeper.function);
        assert!(place.is_some_and(|place| place > 0), "{sleeper:?}: {wait:?}");
        // The kernel frames, as /proc has them, are further in.
        assert!(stack.len() > place.unwrap() + 2 && wait.stack_complete, "{wait:?}");
    }
    let said = &outcome.stderr;
    assert!(
        said.contains("no thread ran in 1.") && said.contains("8 threads"),
        "{said}"
    );
    assert!(said.contains("locks_o"), "{said}");
}

#[test]
fn a_program_that_is_stopped() {
    needs_capture!();
    let hung = Hung::start();
    let pid = nix::unistd::Pid::from_raw(hung.child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
    };
    while !is_stopped() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let (_, waits) = hung.record();
    for sleeper in &hung.sleepers {
        let wait = waits.iter().find(|wait| wait.tid == sleeper.tid).unwrap();
        assert_eq!(wait.reason, "stopped", "{wait:?}");
        let stack = wait.stack.as_deref().unwrap_or_default();
        assert!(stack.contains(&format!(";{};", sleeper.function)), "{wait:?}");
    }
}

/// The recorder continues without it, and still reports the wait.
#[test]
fn an_unreadable_stack() {
    needs_capture!();
    let mut child = Command::new(Oracle::c("waits/absent").path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    if let Some((_, reason)) = line.split_once(r#"{"skip":""#) {
        skip::skip(reason);
        let _ = child.wait();
        return;
    }
    let hung = Hung {
        child,
        sleepers: Vec::new(),
        _folder: scratch(),
    };
    let (_, waits) = hung.record();
    let [wait] = &waits[..] else { panic!("{waits:#?}") };
    assert_eq!(wait.call.as_deref(), Some("pause"), "{wait:?}");
    assert!(!wait.stack_complete, "{wait:?}");
}
