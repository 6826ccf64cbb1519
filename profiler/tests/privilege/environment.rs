//! The environment of a user's processes is the user's, and never root's.

use std::os::unix::fs::{MetadataExt as _, chown};

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, Outcome, procfs};

const NOBODY: u32 = 65534;
/// A variable that the tests put into root's environment.
const SECRET: &str = "ROOTS_SECRET=swordfish";

/// Runs it, and returns the environments of the user's processes meanwhile, except the command's own.
fn run(ngmi: Ngmi) -> (Outcome, Vec<String>) {
    chown(ngmi.dir(), Some(NOBODY), Some(NOBODY)).unwrap();
    Oracle::c("burn").copied(&ngmi.dir().join("burn"));
    let running = ngmi.program("sh", ["-c", "env; exec ./burn 300"]).start();
    let recorder = running.pid().as_raw().unsigned_abs();
    let looking = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while procfs::is_alive(recorder) {
            for pid in procfs::descendants(recorder) {
                let folder = format!("/proc/{pid}");
                let is_users = std::fs::metadata(&folder).is_ok_and(|folder| folder.uid() == NOBODY);
                let words = procfs::command_line(pid);
                if is_users && let Some(subcommand) = words.iter().find(|word| word.starts_with("__")) {
                    let environment = std::fs::read(format!("{folder}/environ")).unwrap_or_default();
                    seen.push(format!("{subcommand}\0{}", String::from_utf8_lossy(&environment)));
                }
            }
        }
        seen
    });
    let outcome = running.wait();
    (outcome, looking.join().unwrap())
}

fn expect_no_secret(outcome: &Outcome, seen: &[String]) {
    outcome.expect_code(0);
    assert!(!outcome.stdout.contains(SECRET), "{}", outcome.stdout);
    assert!(
        seen.iter()
            .any(|one| one.starts_with("__convert\0") && one.contains("PATH="))
    );
    assert!(seen.iter().all(|one| !one.contains(SECRET)), "{seen:?}");
}

#[test]
fn a_user_whom_root_names_gets_a_new_environment() {
    needs_capture!();
    let ngmi = Ngmi::record().args(["--user", "nobody"]);
    let (name, value) = SECRET.split_once('=').unwrap();
    let ngmi = ngmi
        .env(name, value)
        .env("LC_TIME", "C")
        .env("PATH", "/opt/roots/bin:/usr/bin:/bin");
    let (outcome, seen) = run(ngmi);
    expect_no_secret(&outcome, &seen);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    for line in ["LC_TIME=C", "USER=nobody", "PATH=/usr/local/bin:/usr/bin:/bin"] {
        assert!(lines.contains(&line), "{line}: {lines:?}");
    }
}

#[test]
fn under_sudo_the_environment_is_the_users() {
    needs_capture!();
    let (outcome, seen) = run(Ngmi::record_as_sudo(NOBODY).env("PERSONS_OWN", "1"));
    expect_no_secret(&outcome, &seen);
    assert!(outcome.stdout.contains("PERSONS_OWN=1"), "{}", outcome.stdout);
}
