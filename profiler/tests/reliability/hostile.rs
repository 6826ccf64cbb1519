//! Files that another program changes, removes or blocks while they are read.

use std::ffi::OsString;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use profiler_common::Loss;

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Oracle};
use crate::log::Log;

/// User id of the files' owner; no program of the machine uses it.
const USER: u32 = 64_123;

/// The C library that this program runs with.
fn libc() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    paths
        .into_iter()
        .find(|path| path.contains("/libc"))
        .unwrap()
        .to_owned()
}

/// An ordinary user maps files as code and truncates them while root's recorder builds their unwind tables.
#[test]
fn a_user_truncates_mapped_files_under_roots_recorder() {
    needs_capture!();
    let recorder = Ngmi::record();
    chown(recorder.dir(), Some(USER), Some(USER)).unwrap();
    let cutter = Oracle::c("cutter").copied(&recorder.dir().join("cutter"));
    let user = USER.to_string();
    let words = ["--reuid", &user, "--regid", &user, "--clear-groups"].map(str::to_owned);
    let program = [cutter.path.display().to_string(), libc(), "25".to_owned()];
    let outcome = recorder.program("setpriv", words.into_iter().chain(program)).run();
    outcome.expect_code(0);
    assert!(
        outcome.file("cut-24.so").exists(),
        "the program did not reach its last round"
    );
    assert!(
        outcome
            .profile()
            .threads
            .iter()
            .any(|thread| thread.process == "cutter")
    );
}

/// Kills, when dropped, the process whose id is in the file.
struct Ended(PathBuf);

impl Drop for Ended {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(&self.0).ok().and_then(|text| text.parse().ok());
        if let Some(pid) = pid {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// The command line of `standstill` that runs `burn` on its own FUSE file system, and the file with the id of the
/// process that serves it.
fn served(folder: &Path) -> (Vec<OsString>, PathBuf) {
    let (mounted, note) = (folder.join("mounted"), folder.join("note"));
    std::fs::create_dir(&mounted).unwrap();
    let words = [
        Oracle::c("standstill").path,
        Oracle::c("burn").path,
        mounted,
        note.clone(),
    ];
    (words.map(Into::into).to_vec(), note)
}

/// The program is on a file system that answers while the program runs. The recorder copies what it needs meanwhile,
/// so no process waits for the file system afterwards.
#[test]
fn a_file_system_that_hangs_later_costs_nothing() {
    needs_capture!();
    let place = tempfile::tempdir().unwrap();
    let (words, note) = served(place.path());
    let _ended = Ended(note);
    let outcome = Ngmi::record()
        .program(&words[0], words[1..].iter().chain([&"2000".into()]))
        .run();
    if outcome.code() == 77 {
        skip("no FUSE here (/dev/fuse)");
        return;
    }
    outcome.expect_code(0);
    assert!(!outcome.stderr.contains("left out"), "{}", outcome.stderr);
    assert!(outcome.profile().main_of("program").share("burn_here") > 0.9);
}

/// The file system does not answer requests to open the program once it runs. The recorder continues without the file,
/// ends, and names it.
#[test]
fn a_hung_file_system_costs_names_but_no_drain_time() {
    needs_capture!();
    let place = tempfile::tempdir().unwrap();
    let (words, note) = served(place.path());
    let _ended = Ended(note);
    let script = "\"$@\" 1500; status=$?; [ $status = 0 ] && \"$2\" 1000; exit $status";
    let outcome = Ngmi::record()
        .args(["--keep-events", "kept.events"])
        .env("STANDSTILL", "open")
        .program("sh", ["-c", script, "sh"].map(OsString::from).iter().chain(&words))
        .run();
    if outcome.code() == 77 {
        skip("no FUSE here (/dev/fuse)");
        return;
    }
    outcome.expect_code(0);
    let said = "mounted/program was left out: its file system does not answer";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    let mut losses = Log::read(&outcome.file("kept.events")).losses;
    // These count events of the whole machine, including those of other programs.
    losses.remove(&Loss::SwitchMissed);
    losses.remove(&Loss::RequestEndMissed);
    assert!(losses.is_empty(), "{losses:?}");
    let profile = outcome.profile();
    assert!(profile.threads.iter().any(|thread| thread.process == "program"));
    assert!(
        profile.main_of("burn").share("burn_here") > 0.9,
        "a program on another file system has no names"
    );
}
