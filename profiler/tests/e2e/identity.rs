//! The user that the program runs as, and how the privileged helper is started.

use std::io::Read as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::stat::Mode;

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, ngmi};

const NOBODY: u32 = 65534;

/// A run in a folder that belongs to the user `nobody`.
fn owned_by_nobody(ngmi: Ngmi) -> Ngmi {
    chown(ngmi.dir(), Some(NOBODY), Some(NOBODY)).unwrap();
    ngmi
}

fn expect_profile_of_nobody(outcome: &crate::harness::Outcome) {
    use std::os::unix::fs::MetadataExt as _;
    outcome.expect_code(0);
    assert!(
        outcome.stdout.starts_with(&format!("{NOBODY}\n")),
        "the program's uid: {}",
        outcome.stdout
    );
    let meta = std::fs::metadata(outcome.file("out.json.gz")).unwrap();
    assert_eq!(meta.uid(), NOBODY, "the profile is the user's own file");
    assert!(outcome.profile().share("burn_here") > 0.5);
}

const SCRIPT: &str = "id -u; id -G; ./burn 500; echo display=$DISPLAY";

#[test]
fn root_runs_the_program_as_the_user_it_names() {
    needs_capture!();
    let ngmi = owned_by_nobody(Ngmi::record().args(["--user", "nobody"]));
    Oracle::c("burn").copied(&ngmi.dir().join("burn"));
    let outcome = ngmi.program("sh", ["-c", SCRIPT]).run();
    expect_profile_of_nobody(&outcome);
    assert!(
        !outcome
            .stdout
            .lines()
            .nth(1)
            .unwrap_or("0")
            .split(' ')
            .any(|group| group == "0"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn under_sudo_the_program_runs_as_the_user() {
    needs_capture!();
    let ngmi = owned_by_nobody(Ngmi::record_as_sudo(NOBODY));
    Oracle::c("burn").copied(&ngmi.dir().join("burn"));
    let outcome = ngmi.program("sh", ["-c", SCRIPT]).run();
    expect_profile_of_nobody(&outcome);
}

/// A command line of `ngmi` for an unprivileged user: the binary in an accessible place, and `path` as the only PATH.
fn as_nobody(dir: &std::path::Path, path: &std::ffi::OsStr) -> Command {
    chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
    let binary = dir.join("ngmi");
    if !binary.exists() {
        std::fs::copy(ngmi::binary(), &binary).unwrap();
    }
    let mut command = Command::new(binary);
    command
        .current_dir(dir)
        .uid(NOBODY)
        .gid(NOBODY)
        .env("PATH", path)
        .env_remove("SUDO_UID")
        .stdin(Stdio::null());
    command
}

#[test]
fn without_privileges_the_remedy_is_printed() {
    needs_capture!();
    let dir = tempfile::tempdir().unwrap();
    let output = as_nobody(dir.path(), "/nonexistent".as_ref())
        .args(["record", "--", "/bin/true"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(
        stderr.contains("sudo") && stderr.contains("record -- /bin/true"),
        "{stderr}"
    );
    assert!(!dir.path().join("profile.json.gz").exists());
    assert!(!dir.path().join("profile.json.gz.events").exists());
}

#[test]
fn an_ordinary_user_starts_the_privileged_helper_through_sudo() {
    needs_capture!();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    Oracle::c("burn").copied(&folder.join("burn"));
    // Replaces sudo: passes its arguments to this test, which is root.
    let fifo = folder.join("asked");
    nix::unistd::mkfifo(&fifo, Mode::from_bits_truncate(0o666)).unwrap();
    chown(&fifo, Some(NOBODY), None).unwrap();
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\n", fifo.display());
    std::fs::write(bin.join("sudo"), script).unwrap();
    std::fs::set_permissions(bin.join("sudo"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let place = fifo.clone();
    let answer = std::thread::spawn(move || {
        let mut asked = String::new();
        std::fs::File::open(place).unwrap().read_to_string(&mut asked).unwrap();
        let words: Vec<&str> = asked.lines().skip_while(|word| *word != "--").skip(1).collect();
        Command::new(words[0])
            .args(&words[1..])
            .env("SUDO_UID", NOBODY.to_string())
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    });
    let output = as_nobody(
        folder,
        &std::env::join_paths([bin, "/usr/bin".into(), "/bin".into()]).unwrap(),
    )
    .args(["record", "--save-only", "-o", "out.json.gz", "--", "./burn", "500"])
    .output()
    .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // If sudo was not called, opening the FIFO releases the thread that would otherwise wait for its arguments forever.
    let unasked = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&fifo)
        .is_ok();
    assert!(!unasked, "sudo was not called: {stderr}");
    let mut capture = answer.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let profile = crate::harness::Profile::read(&folder.join("out.json.gz"));
    assert!(profile.main_of("burn").share("burn_here") > 0.9);
    assert!(capture.wait().unwrap().success());
}
