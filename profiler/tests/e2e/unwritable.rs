//! Disks that fill up during or after recording: this is reported and counted, and the old profile is kept.

use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle};

/// A file system of a given size, removed with the test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        mount(
            Some("tmpfs"),
            dir.path(),
            Some("tmpfs"),
            MsFlags::empty(),
            Some(format!("size={size}").as_str()),
        )
        .unwrap();
        Self(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_disk_that_fills_while_recording() {
    needs_capture!();
    let disk = SmallDisk::new("64k");
    let old = disk.file("out.json.gz");
    std::fs::write(&old, "old").unwrap();
    let outcome = Ngmi::subcommand("record")
        .arg("--save-only")
        .arg("-o")
        .arg(&old)
        .program(Oracle::c("deep"), ["1000", "1024"])
        .run();
    outcome.expect_no_panic();
    let says = outcome.stderr.contains("space") || outcome.stderr.contains("full");
    assert!(says, "the disk is full: {}", outcome.stderr);
    assert_ne!(outcome.code(), 0, "{}", outcome.stderr);
    // Either the old profile or a complete new one exists, possibly next to a log that was named in the output.
    let bytes = std::fs::read(&old).unwrap();
    if bytes != b"old" {
        crate::harness::Profile::read(&old);
    }
    expect_nothing_unnamed(&disk, &outcome.stderr);
}

#[test]
fn a_disk_too_small_for_the_profile() {
    needs_capture!();
    let disk = SmallDisk::new("16k");
    let old = disk.file("out.json.gz");
    std::fs::write(&old, "old").unwrap();
    let log = Ngmi::record()
        .args(["--keep-events", "log"])
        .program(Oracle::c("threads"), [""; 0])
        .run();
    log.expect_code(0);
    let outcome = Ngmi::subcommand("convert")
        .arg(log.file("log"))
        .arg("-o")
        .arg(&old)
        .run();
    outcome.expect_refusal(&["out.json.gz"]);
    assert_eq!(std::fs::read(&old).unwrap(), b"old");
    assert_eq!(disk.names(), ["out.json.gz"]);
}

/// Asserts that the output names every file other than the profile.
fn expect_nothing_unnamed(disk: &SmallDisk, stderr: &str) {
    for name in disk.names() {
        assert!(
            name == "out.json.gz" || stderr.contains(&name),
            "{name} is left, but not mentioned: {stderr}"
        );
    }
}

#[test]
fn a_full_disk_under_the_event_log() {
    needs_capture!();
    let disk = SmallDisk::new("64k");
    let log = disk.file("log");
    let outcome = Ngmi::record()
        .arg("--keep-events")
        .arg(&log)
        .program(Oracle::c("deep"), ["1000", "1024"])
        .run();
    outcome.expect_no_panic();
    assert_ne!(outcome.code(), 0, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains(&path_text(&log)) || outcome.stderr.contains("--keep-events"),
        "{}",
        outcome.stderr
    );
}

/// A write beyond the limit ends a process by default, which would lose the recording without a word.
#[test]
fn a_limit_of_file_sizes() {
    needs_capture!();
    let outcome = Ngmi::record_under("ulimit -f 16")
        .program("sh", ["-c", "trap '' XFSZ; head -c 100000 /dev/zero >large; exec true"])
        .run();
    outcome.expect_no_panic();
    assert_eq!(outcome.code(), 125, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("File too large"), "{}", outcome.stderr);
    let ended = Ngmi::record()
        .program("sh", ["-c", "ulimit -f 16; exec head -c 100000 /dev/zero >large"])
        .run();
    ended.expect_code(128 + nix::sys::signal::Signal::SIGXFSZ as i32);
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}
