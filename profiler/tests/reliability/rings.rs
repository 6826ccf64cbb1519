//! Rings that overflow and disks that block: every loss is counted, down to the last fault.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use profiler_common::Loss;
use serde_json::Value;

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Oracle, ngmi, procfs};
use crate::log::Log;
use crate::stops::{capture_of, expect_all_time, send, wait_for_program};

/// A recording with a ring of this many bytes. `None`, and the running test is skipped, if the size can't be set.
fn record_with_ring(bytes: &str) -> Option<Ngmi> {
    if std::env::var_os("NGMI_BIN").is_some() {
        skip("only a debug build reads its ring size from NGMI_RING_BYTES");
        return None;
    }
    let ngmi = Ngmi::record().args(["--json", "--keep-events", "log"]);
    Some(ngmi.env("NGMI_RING_BYTES", bytes))
}

#[test]
fn a_tiny_ring_loses_faults_and_counts_each() {
    needs_capture!();
    let Some(ngmi) = record_with_ring("65536") else { return };
    // By default most are only counted, and the rest may fit.
    let ngmi = ngmi.args(["--faults", "all"]);
    let outcome = ngmi.program(Oracle::c("faults/storm"), ["2", "50000"]).run();
    outcome.expect_code(0);
    let lost = Log::read(&outcome.file("log")).lost(Loss::FaultRingFull);
    assert!(lost > 0, "100,000 faults fit into 64 KiB: {}", outcome.stdout);
    let json = outcome.stdout.rfind("\n{\n").map_or(0, |line| line + 1);
    let summary: Value = serde_json::from_str(&outcome.stdout[json..]).unwrap();
    let account = &summary["faults"]["account"];
    let of = |key: &str| account[key].as_u64().unwrap();
    assert!(of("seen") > 0 && of("lost") > 0, "{account}");
    assert_eq!(
        account["open"].as_array().unwrap().len(),
        0,
        "seen + lost + not visible = the kernel's: {account}"
    );
    assert!(of("seen") + of("lost") >= 100_000, "{account}");
    let losses = summary["losses"].as_array().unwrap();
    assert!(
        losses
            .iter()
            .any(|loss| loss[0] == Loss::FaultRingFull.name() && loss[1] == lost),
        "{losses:?}"
    );
    assert_eq!(summary["cost"]["ring"]["bytes"], 65536, "{}", summary["cost"]);
}

/// One half of the ring holds copies of stacks, the other half events without a stack, while it is not drained.
/// Copies alone would fill four rings.
#[test]
fn a_full_ring_takes_events_without_copies() {
    needs_capture!();
    let Some(ngmi) = record_with_ring("1048576") else {
        return;
    };
    let storm = format!("sleep 2; exec {} 1 1000", Oracle::c("faults/storm").path.display());
    let ngmi = ngmi
        .args(["-F", "10", "--off-cpu", "off", "--block", "off"])
        .env("NGMI_NO_WALK", "1")
        .program("sh", ["-c", &storm]);
    let stdout = ngmi.dir().join("stdout");
    let mut running = ngmi.start();
    wait_for_program(&mut running, "sleep");
    let capture = capture_of(&running);
    send(capture, Signal::SIGSTOP);
    running.wait_until("the storm's end", |_| ngmi::read_lossy(&stdout).contains("\"phase\""));
    send(capture, Signal::SIGCONT);
    let outcome = running.wait();
    outcome.expect_code(0);
    let log = Log::read(&outcome.file("log"));
    assert_eq!(log.lost(Loss::FaultRingFull), 0, "{}", outcome.stdout);
    let (copied, cut) = (log.copied, log.cut);
    assert!(copied > 50 && cut > 50, "{copied} copied, {cut} cut");
}

/// A separate ext4 file system, which can be frozen; thawed, unmounted and deleted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (image, place) = (folder.path().join("image"), folder.path().join("place"));
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        std::fs::create_dir(&place).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            Command::new(program)
                .args(arguments)
                .output()
                .is_ok_and(|output| output.status.success())
        };
        let (image, place) = (image.to_str().unwrap(), place.to_str().unwrap());
        (run("mkfs.ext4", &["-q", "-F", image]) && run("mount", &["-o", "loop", image, place])).then(|| Self(folder))
    }

    fn place(&self) -> PathBuf {
        self.0.path().join("place")
    }

    /// Writers sleep until it is thawed; returns false if it can't be frozen here.
    fn freeze(&self, on: bool) -> bool {
        let flag = if on { "-f" } else { "-u" };
        let status = Command::new("fsfreeze").arg(flag).arg(self.place()).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may be thawed already.
        let _ = Command::new("fsfreeze").arg("-u").arg(self.place()).output();
        let _ = Command::new("umount").arg("-l").arg(self.place()).status();
    }
}

#[test]
fn a_hung_disk_blocks_the_recorder_but_not_the_program() {
    needs_capture!();
    let Some(disk) = Disk::new() else {
        skip("no ext4 file system can be created and mounted here");
        return;
    };
    let ngmi = Ngmi::record()
        .arg("--keep-events")
        .arg(disk.place().join("log"))
        .program(Oracle::c("burn"), ["1500"]);
    let said_by_burn = ngmi.dir().join("stdout");
    let mut running = ngmi.start();
    running.wait_until("the program runs", |running| {
        procfs::descendants(running.pid().as_raw().unsigned_abs())
            .into_iter()
            .any(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("burn")))
    });
    if !disk.freeze(true) {
        disk.freeze(false);
        skip("the file system can't be frozen here");
        running.signal(Signal::SIGINT);
        running.wait();
        return;
    }
    running.wait_until("the program ends while nothing can be written", |_| {
        ngmi::read_lossy(&said_by_burn).contains("cpu_ns=")
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(disk.freeze(false));
    let outcome = running.wait();
    outcome.expect_code(0);
    let log = Log::read(&disk.place().join("log"));
    // 1.5 s of samples need far less than the ring's capacity.
    assert_eq!(log.lost(Loss::SampleRingFull), 0);
    expect_all_time(&outcome, 1500.0);
}
