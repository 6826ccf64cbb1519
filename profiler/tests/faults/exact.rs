//! `--exact-touch`: each first touch is a fault, and the machine's setting is restored however the recording ends.

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::emulated::is_emulated;
use crate::harness::ngmi::Running;
use crate::harness::page::page_size;
use crate::harness::{Ngmi, Oracle, procfs, skip};
use crate::run::{read, recorder, scratch};
use crate::tier::{Tier, in_each_tier};

in_each_tier!(alone: every_touch_is_a_fault);

/// The kernel's limit for mapping around a fault in bytes, read without ngmi; `None` if it is not readable here.
fn fault_around() -> Option<u64> {
    with_setting("cat fault_around_bytes")?.trim().parse().ok()
}

/// Runs a line of shell in a separate mount of debugfs.
fn with_setting(line: &str) -> Option<String> {
    let script = format!(
        "d=$(mktemp -d) && mount -t debugfs none $d && cd $d && {line}; s=$?; cd /; umount $d; rmdir $d; exit $s"
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout).unwrap())
}

/// Sets it until it is dropped.
pub struct Around(u64);

impl Around {
    /// `None`: this kernel does not permit it, and the test counts as skipped.
    pub fn set(bytes: u64) -> Option<Self> {
        if skipped() {
            return None;
        }
        let before = Self(fault_around()?);
        with_setting(&format!("echo {bytes} > fault_around_bytes"))?;
        Some(before)
    }
}

impl Drop for Around {
    fn drop(&mut self) {
        with_setting(&format!("echo {} > fault_around_bytes", self.0));
    }
}

/// Skips the test if the setting cannot be changed here, which is found by writing its current value.
fn skipped() -> bool {
    if let Some(reason) = skip::no_capture() {
        skip::skip(&reason);
        return true;
    }
    let may = fault_around().and_then(|bytes| with_setting(&format!("echo {bytes} > fault_around_bytes")));
    if may.is_none() {
        skip::skip("this kernel does not permit setting fault_around_bytes");
    }
    may.is_none()
}

fn every_touch_is_a_fault(tier: Tier) {
    if skipped() {
        return;
    }
    let before = fault_around();
    let folder = scratch();
    let oracle = Oracle::c("faults/strided");
    let arguments = |mode| [mode, folder.path().to_str().unwrap()].map(str::to_owned);
    let Some(plain) = read(tier, recorder(tier, "all").program(&oracle, arguments("plain")).run()) else {
        return;
    };
    plain.expect_phases();
    let (phase, rows) = plain.only_rows();
    assert!(
        rows.len() < phase.touches.len(),
        "{} faults of {} touches",
        rows.len(),
        phase.touches.len()
    );

    let recording = recorder(tier, "all")
        .arg("--exact-touch")
        .program(&oracle, arguments("exact"));
    let Some(exact) = read(tier, recording.run()) else {
        return;
    };
    exact.expect_phases();
    let (phase, rows) = exact.only_rows();
    let pages: Vec<_> = rows.iter().map(|row| row.offset.unwrap() / page_size()).collect();
    assert_eq!(pages, (0..64).map(|touch| touch * 5).collect::<Vec<_>>());
    assert_eq!(rows.len(), phase.touches.len());
    assert!(rows.iter().all(|row| row.pages_around == Some(0)), "{:?}", rows[0]);
    assert_eq!(fault_around(), before);
    assert!(exact.outcome.stderr.contains("exact touch"), "{}", exact.outcome.stderr);
    for file in ["log", "out.json.gz"] {
        let output = Ngmi::subcommand("faults").arg(exact.outcome.file(file)).run();
        assert!(output.stdout.contains("exact touch"), "{file}: {}", output.stdout);
    }
}

/// A running recording that has changed the setting.
fn changed() -> Running {
    let recording = Ngmi::record().arg("--exact-touch").program("sleep", ["100"]);
    let log = recording.dir().join("out.json.gz.events");
    let mut running = recording.start();
    running.wait_until("recording", |_| fault_around() == Some(page_size()) && log.exists());
    running
}

#[test]
fn the_setting_is_restored_at_any_ending() {
    crate::tier::alone(|| {
        if skipped() {
            return;
        }
        let before = fault_around();
        let interrupted = changed();
        let other = changed();
        interrupted.signal(Signal::SIGINT);
        interrupted.wait();
        assert_eq!(fault_around(), Some(page_size()), "another recording is still running");
        other.signal(Signal::SIGTERM);
        other.wait();
        assert_eq!(fault_around(), before, "after the last one");

        let abandoned = changed();
        abandoned.signal(Signal::SIGKILL);
        abandoned.wait();
        // Its eBPF programs are unloaded first, which takes long in a guest.
        let limit = std::time::Duration::from_secs(if is_emulated() { 60 } else { 10 });
        let end = std::time::Instant::now() + limit;
        while fault_around() != before && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(
            fault_around(),
            before,
            "the privileged helper outlives the recorder to restore the setting"
        );
    });
}

#[test]
fn the_doctor_restores_the_setting_after_sigkill() {
    crate::tier::alone(|| {
        if skipped() {
            return;
        }
        let before = fault_around();
        for next in ["doctor", "record"] {
            let killed = changed();
            let pid = killed.pid().as_raw();
            let all: Vec<u32> = [pid.unsigned_abs()]
                .into_iter()
                .chain(procfs::descendants(pid.unsigned_abs()))
                .collect();
            // Stop all first: the privileged helper must not notice that the recorder ends.
            for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
                for pid in &all {
                    let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
                }
            }
            killed.wait();
            assert_eq!(fault_around(), Some(page_size()), "still changed after SIGKILL");
            let output = match next {
                "doctor" => Ngmi::subcommand("doctor").run(),
                _ => Ngmi::record().program("true", [""; 0]).run(),
            };
            output.expect_code(0);
            let words = format!("{}{}", output.stdout, output.stderr)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            let expected = format!("restored to {}", before.unwrap());
            assert!(words.contains(&expected), "{next} does not say so: {words}");
            assert_eq!(fault_around(), before, "after {next}");
        }
    });
}

#[test]
fn a_refusal_comes_before_the_command() {
    skip::needs_capture!();
    if fault_around().is_some() {
        skip::skip("this kernel lets root set fault_around_bytes");
        return;
    }
    let recording = Ngmi::record().arg("--exact-touch");
    let mark = recording.dir().join("ran");
    let outcome = recording.program("touch", [&mark]).run();
    outcome.expect_refusal(&["--exact-touch", "record without"]);
    assert_eq!(outcome.code(), 125);
    assert!(!mark.exists(), "the command ran");
}
