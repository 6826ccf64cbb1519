//! Paths that end at a disk: another thread's read-ahead, and the journal of ext4.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::harness::skip::{needs_capture, skip};
use crate::run::{Run, record_in, scratch};

/// A system call that waits for a disk, as the program measured it.
#[derive(Debug, Deserialize)]
struct Call {
    start: u64,
    end: u64,
    /// Voluntary switches within it: 0 if it did not wait.
    switches: u64,
    file: Option<String>,
}

/// Reasons of time within an fsync.
const EXPECTED: [&str; 4] = ["disk", "file-system", "cpu", "run-queue"];

/// The calls that the program printed under this name.
fn calls(run: &Run, name: &str) -> Vec<Call> {
    let lines = run.others.iter().filter(|line| line.get(name).is_some());
    lines
        .map(|line| serde_json::from_value(line.clone()).unwrap())
        .collect()
}

#[test]
fn a_reader_that_waits_for_another_threads_read_ahead() {
    needs_capture!();
    let folder = scratch();
    let waited = |run: &Run| {
        let is_over = calls(run, "read").iter().all(|call| call.switches == 0);
        let over = is_over.then(|| "the read-ahead was finished before the reader waited".to_owned());
        over.or_else(|| run.difference())
    };
    let Some(run) = record_in(folder.path(), "ahead", waited) else {
        return;
    };
    run.expect_first("ahead", "cpu");
    let read = &calls(&run, "read")[0];
    // The disk had the request already: nothing that a thread did would have ended the wait earlier.
    let disk: Vec<_> = run.pieces.iter().filter(|piece| piece.reason == "disk").collect();
    let of_read = |time: u64| time + run.start >= read.start && time + run.start <= read.end;
    let waited = disk
        .iter()
        .find(|piece| of_read(piece.time_ns) && of_read(piece.end_ns));
    let waited = waited.unwrap_or_else(|| panic!("{read:?}: {:?}", run.pieces));
    assert_eq!((waited.tid, &waited.file), (run.window.tid, &read.file), "{waited:?}");
    assert!(waited.device.is_some(), "{waited:?}");
    let reasons = run.reasons_within(read.start, read.end);
    assert!(
        reasons
            .keys()
            .all(|reason| ["disk", "cpu", "run-queue"].contains(reason)),
        "{reasons:?}"
    );
}

/// An ext4 file system in a file, with data in its journal, mounted for this test only.
struct Ext4 {
    mounted: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mounted).status();
    }
}

impl Ext4 {
    fn new() -> Result<Self, String> {
        let folder = scratch();
        let (image, mounted) = (folder.path().join("image"), folder.path().join("mounted"));
        std::fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
        std::fs::create_dir(&mounted).unwrap();
        execute(Command::new("mkfs.ext4").args(["-q", "-J", "size=64"]).arg(&image))?;
        execute(
            Command::new("mount")
                .args(["-o", "loop,data=journal"])
                .args([&image, &mounted]),
        )?;
        Ok(Self {
            mounted,
            _folder: folder,
        })
    }
}

/// Runs a command; the error says why it can't.
fn execute(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|error| format!("{name}: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    let why = || format!("{name}: {}", said.lines().next().unwrap_or("failed"));
    done.status.success().then_some(()).ok_or_else(why)
}

#[test]
fn an_fsync_behind_the_journal() {
    needs_capture!();
    let disk = match Ext4::new() {
        Ok(disk) => disk,
        Err(why) => return skip(&why),
    };
    // The journal's thread is not recorded: the path does not leave the thread that waits for it.
    let difference = |run: &Run| {
        let others = calls(run, "fsync").into_iter().find_map(|sync| {
            let reasons = run.reasons_within(sync.start, sync.end);
            let other = reasons.keys().find(|reason| !EXPECTED.contains(reason)).copied();
            other.map(|reason| format!("{reason}: {sync:?}"))
        });
        others.or_else(|| run.difference())
    };
    let Some(run) = record_in(&disk.mounted, "journal", difference) else {
        return;
    };
    let syncs = calls(&run, "fsync");
    assert!(syncs.iter().all(|sync| sync.switches > 0), "{syncs:?}");
    // Time that others took from the thread on a busy machine is left out.
    let parts = run.report["by_part"].as_array().unwrap();
    let first = parts.iter().find(|part| part["reason"] != "run-queue").unwrap();
    let reason = first["reason"].as_str().unwrap();
    assert!(["disk", "file-system"].contains(&reason), "{first}");
    assert_eq!(first["tid"].as_u64(), Some(run.window.tid.into()));
}
