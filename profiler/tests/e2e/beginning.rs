//! A recording has one start and one end: CPU time outside of it is not counted, and the profile contains nothing from before. The
//! tests of `capture` cover the whole system and each record.

use std::fs::File;
use std::process::{Child, Command};
use std::time::Duration;

use profiler::capture::proc::procfs;
use serde_json::Value;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome};

/// A program that is busy in every way and ends with the test.
struct Busy {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Busy {
    fn start() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, vec![1; 1 << 20]).unwrap();
        File::open(&file).unwrap().sync_all().unwrap();
        let child = Command::new(Oracle::c("busy").path).arg(&file).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        Self { child, _folder: folder }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compares each thread's lifetime with its on-CPU and off-CPU time, by `ngmi waits`.
fn check_lives(outcome: &Outcome) {
    let said = Ngmi::subcommand("waits").arg(outcome.file("log")).arg("--json").run();
    said.expect_code(0);
    let waits: Value = serde_json::from_str(&said.stdout).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    for life in waits["lives"]["each"].as_array().unwrap() {
        let (on, off, lived) = (
            number(&life["on_ns"]),
            number(&life["off_ns"]),
            number(&life["life_ns"]),
        );
        // A context switch that the kernel did not report leaves a gap, never an excess.
        assert!(on <= lived && on + off <= lived + lived / 1000 + 100_000, "{life}");
    }
}

fn check_profile(outcome: &Outcome) {
    let profile = outcome.profile();
    let began = profile.meta["profilingStartTime"].as_f64().unwrap();
    for thread in &profile.threads {
        let first = thread.samples.first().map(|sample| sample.time);
        assert!(
            first.is_none_or(|time| time >= began),
            "{}: {first:?} of {began}",
            thread.name
        );
        let markers = thread.markers.iter().filter_map(|marker| marker.time.0);
        let first = markers.reduce(f64::min);
        assert!(
            first.is_none_or(|time| time >= began),
            "{}: {first:?} of {began}",
            thread.name
        );
    }
}

#[test]
fn an_already_running_process() {
    needs_capture!();
    let busy = Busy::start();
    let pid = busy.child.id();
    let ran = || -> u64 {
        let threads = procfs::threads(pid).unwrap().into_iter();
        let stat = |tid| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap();
        threads
            .map(|tid| stat(tid).split(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    };
    let before = ran();
    let outcome = Ngmi::record()
        .args([
            "-d",
            "1",
            "--stack-copy",
            "0",
            "--keep-events",
            "log",
            "-p",
            &pid.to_string(),
        ])
        .run();
    let most = ran() - before;
    outcome.expect_code(0);
    check_profile(&outcome);
    check_lives(&outcome);
    let profile = outcome.profile();
    let own = profile.threads.iter().filter(|thread| thread.pid == pid.to_string());
    let ours: f64 = own.flat_map(|thread| &thread.samples).map(|sample| sample.cpu_ns).sum();
    // The kernel excludes the time of interrupts, which is short.
    assert!(
        ours > 0.0 && ours <= most as f64 * 1.1,
        "{ours} ns, at most {most} ns according to the kernel"
    );
}
