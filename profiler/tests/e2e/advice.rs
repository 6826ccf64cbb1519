//! Advice for commands that end immediately, files that root leaves in another user's home, and invalid output paths.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::{Child, Command};

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, procfs};

const NOBODY: u32 = 65534;

/// A sleeping process with a given name, which ends with this value.
struct Sleeper(Child);

impl Sleeper {
    fn called(path: &Path) -> Self {
        std::fs::copy("/bin/sleep", path).unwrap();
        Self(Command::new(path).arg("60").spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn only_programs_that_hand_over_get_advice() {
    needs_capture!();
    // Another shell is running: the one below.
    let ngmi = Ngmi::record().program("bash", ["-c", "true"]);
    let shell = ngmi.dir().join("bash");
    let _other = Sleeper::called(&shell);
    let outcome = ngmi.run();
    outcome.expect_code(0);
    assert!(!outcome.stderr.contains("handed over"), "{}", outcome.stderr);

    let ngmi = Ngmi::record();
    let browser = ngmi.dir().join("chromium");
    let _other = Sleeper::called(&browser);
    let outcome = ngmi.program(&browser, ["0"]).run();
    let advice = "`ngmi record -- chromium --user-data-dir=";
    assert!(outcome.stderr.contains(advice), "{}", outcome.stderr);
}

#[test]
fn a_forked_daemon_is_named_with_advice() {
    needs_capture!();
    let burn = Oracle::c("burn");
    let script = "\"$0\" 60000 > /dev/null 2>&1 & echo $!";
    let outcome = Ngmi::record()
        .program("sh", ["-c".as_ref(), script.as_ref(), burn.path.as_os_str()])
        .run();
    outcome.expect_code(0);
    let daemon: u32 = outcome.stdout.trim().parse().unwrap();
    assert!(procfs::is_alive(daemon), "ngmi does not end it");
    let daemons_pid = nix::unistd::Pid::from_raw(i32::try_from(daemon).unwrap());
    nix::sys::signal::kill(daemons_pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    let advice = format!("still running (burn {daemon}): record them with `ngmi record -p {daemon}`");
    assert!(outcome.stderr.contains(&advice), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("handed over"), "{}", outcome.stderr);
}

#[test]
fn root_leaves_nothing_in_another_users_home() {
    needs_capture!();
    let home = tempfile::tempdir().unwrap();
    chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let outcome = Ngmi::record()
        .env("HOME", home.path())
        .env("XDG_CACHE_HOME", "")
        .program(Oracle::c("burn"), ["100"])
        .run();
    outcome.expect_code(0);
    assert!(outcome.profile().share("burn_here") > 0.5, "it is unwound nevertheless");
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    // A home that belongs to root is used.
    chown(home.path(), Some(0), Some(0)).unwrap();
    let again = Ngmi::record().env("HOME", home.path()).env("XDG_CACHE_HOME", "");
    again.program(Oracle::c("burn"), ["100"]).run().expect_code(0);
    assert_eq!(
        std::fs::metadata(home.path().join(".cache/ngmi/tables")).unwrap().uid(),
        0
    );
}

#[test]
fn a_profile_is_not_written_to_standard_output() {
    for subcommand in ["record", "convert", "trim"] {
        let outcome = Ngmi::subcommand(subcommand).args(["-o", "-"]).run();
        outcome.expect_code(2);
        assert!(outcome.stderr.contains("name a file (`./-`"), "{}", outcome.stderr);
        outcome.expect_files(&[]);
    }
}
