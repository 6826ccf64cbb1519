//! What file capabilities are not for, and files with too many or too few privileges.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::Oracle;
use crate::harness::skip::needs_capture;
use crate::user::{ALL, USER, User, said, status};

/// A process killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn expect_refusal(user: &User, words: &[&str], why: &str) {
    let output = user.records(words);
    assert_eq!(output.status.code(), Some(125), "{words:?}: {}", said(&output));
    assert!(said(&output).contains(why), "{words:?}: {}", said(&output));
    let left: Vec<_> = std::fs::read_dir(user.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with("out"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn other_users_and_the_whole_machine_are_refused() {
    needs_capture!();
    let Some(user) = User::with(ALL) else { return };
    expect_refusal(&user, &["-a", "-d", "1"], "run with sudo");
    expect_refusal(
        &user,
        &["-p", "1", "-d", "1"],
        "permission denied for process 1: run with sudo",
    );
    expect_refusal(
        &user,
        &["--user", "root", "--", "/bin/true"],
        "only root can run the command as",
    );
    for line in [
        ["--name", "*"],
        ["--user", "root"],
        ["--cgroup", "/"],
        ["--exe", "/bin/sh"],
    ] {
        expect_refusal(&user, &line, "run with sudo");
    }
    expect_refusal(&user, &["-p", "1", "--exclude", "name=x"], "run with sudo");
    expect_refusal(&user, &["--exact-touch", "--", "/bin/true"], "run with sudo");
    expect_refusal(&user, &["--cold=system", "--", "/bin/true"], "only root may");
}

#[test]
fn own_processes_that_can_gain_privileges_are_refused() {
    needs_capture!();
    let Some(user) = User::with(ALL) else { return };
    let own = Running(user.runs("./burn").arg("60000").spawn().unwrap());
    let pid = own.0.id().to_string();
    expect_refusal(&user, &["-p", &pid, "-d", "1"], "no_new_privs");
    drop(own);
    Oracle::c("threads").copied(&user.path("threads"));
    let mut safe = user.runs("/usr/bin/setpriv");
    let safe = Running(safe.args(["--no-new-privs", "./burn", "60000"]).spawn().unwrap());
    let pid = safe.0.id().to_string();
    let output = user.records(&["-p", &pid, "-d", "1"]);
    assert!(user.profile(&output).main_of("burn").share("burn_here") > 0.9);
    std::fs::remove_file(user.path("out.json.gz")).unwrap();
    let mut threads = user.runs("/usr/bin/setpriv");
    let threads = Running(threads.args(["--no-new-privs", "./threads"]).spawn().unwrap());
    let pid = threads.0.id();
    while status(pid, "Threads") == "1" {
        std::thread::yield_now();
    }
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGSTOP).unwrap();
    expect_refusal(&user, &["-p", &pid.to_string(), "-d", "1"], "several threads");
    drop(threads);
    // Another user's process, also with no_new_privs.
    let mut other = Command::new("/usr/bin/setpriv");
    other.args([
        "--reuid",
        "64124",
        "--regid",
        "64124",
        "--clear-groups",
        "--no-new-privs",
    ]);
    let other = Running(other.args(["/bin/sleep", "60"]).spawn().unwrap());
    let pid = other.0.id().to_string();
    std::thread::sleep(std::time::Duration::from_millis(300));
    expect_refusal(&user, &["-p", &pid, "-d", "1"], "permission denied for process");
}

#[test]
fn a_file_with_too_few_capabilities() {
    needs_capture!();
    let Some(user) = User::with("cap_bpf,cap_syslog+ep") else {
        return;
    };
    expect_refusal(&user, &["--", "/bin/true"], "recording needs root");
    let output = user.ngmi("doctor").arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("with cap_bpf cap_syslog only"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_file_that_is_set_user_id() {
    needs_capture!();
    let Some(user) = User::with(ALL) else { return };
    let file = user.path("ngmi");
    chown(&file, Some(0), Some(0)).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
    for words in [
        &["doctor"][..],
        &["record", "--", "/bin/true"],
        &["__capture", "--fd", "0"],
    ] {
        let output = user.runs(&file).args(words).output().unwrap();
        assert!(
            !output.status.success() && said(&output).contains("chmod ug-s"),
            "{}",
            said(&output)
        );
    }
    let mine = std::fs::metadata(user.folder.path()).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&mine), USER);
}
