//! Files that another program changes, removes or withholds while they are read.

use std::os::unix::fs::chown;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::skip::{needs_capture, skip};
use crate::harness::{Ngmi, Oracle};

/// Owner of the files: a user without any programs on this machine.
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

/// An ordinary user maps files as code and truncates them while root's recorder builds unwind tables from them.
#[test]
fn a_user_cuts_off_mapped_files_under_roots_recorder() {
    needs_capture!();
    let recorder = Ngmi::record();
    chown(recorder.dir(), Some(USER), Some(USER)).unwrap();
    let cutter = Oracle::c("cutter").copied(&recorder.dir().join("cutter"));
    let user = USER.to_string();
    let words = ["--reuid", &user, "--regid", &user, "--clear-groups"].map(str::to_owned);
    let program = [cutter.path.display().to_string(), libc(), "25".to_owned()];
    let outcome = recorder.program("setpriv", words.into_iter().chain(program)).run();
    outcome.expect_code(0);
    assert!(outcome.file("cut-24.so").exists(), "the program ran to its end");
    assert!(
        outcome
            .profile()
            .threads
            .iter()
            .any(|thread| thread.process == "cutter")
    );
}

/// Ends the process that a file's text names.
struct Ended(std::path::PathBuf);

impl Drop for Ended {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(&self.0).ok().and_then(|text| text.parse().ok());
        if let Some(pid) = pid {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// The program is on a file system that answers as long as the program runs. Its names are left out, which is reported.
#[test]
fn a_file_system_that_stands_still_costs_names() {
    needs_capture!();
    let place = tempfile::tempdir().unwrap();
    let (folder, note) = (place.path().join("mounted"), place.path().join("note"));
    std::fs::create_dir(&folder).unwrap();
    let _ended = Ended(note.clone());
    let burn = Oracle::c("burn").path;
    // Until the recorder has made its unwind table.
    let words = [burn.as_os_str(), folder.as_os_str(), note.as_os_str(), "3000".as_ref()];
    let outcome = Ngmi::record().program(Oracle::c("standstill").path, words).run();
    if outcome.code() == 77 {
        skip("FUSE is not available (/dev/fuse)");
        return;
    }
    outcome.expect_code(0);
    let said = "mounted/program was left out: its file system does not answer";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    assert!(
        outcome
            .profile()
            .threads
            .iter()
            .any(|thread| thread.process == "program")
    );
}
