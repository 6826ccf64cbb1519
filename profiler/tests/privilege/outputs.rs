//! Modes and owners of written files, in folders that several users write to.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::skip::skip;
use crate::mounted::Mounted;
use crate::user::{USER, User, said};

/// Another ordinary user.
const OTHER: u32 = 64_124;

/// Folders that both users write to: on each file system, with and without a sticky bit.
fn shared() -> (Vec<Mounted>, Vec<PathBuf>) {
    let systems = Mounted::each(skip);
    let mut folders = Vec::new();
    for (system, mode) in systems.iter().flat_map(|system| [(system, 0o777), (system, 0o1777)]) {
        let folder = system.top().join(format!("{}-{mode:o}", system.kind));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        folders.push(folder);
    }
    (systems, folders)
}

/// A small log, readable by all.
fn log(user: &User) -> PathBuf {
    let log = user.path("small.log");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/small.log"), &log).unwrap();
    fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).unwrap();
    log
}

/// Runs `ngmi convert LOG -o OUTPUT` as the user after `script`, which may wait for a line.
fn convert(user: &User, script: &str, output: &Path) -> Command {
    let mut command = user.runs("/bin/sh");
    command
        .args(["-c", &format!("{script}; exec \"$@\""), "sh"])
        .arg(user.path("ngmi"))
        .arg("convert")
        .arg(log(user))
        .arg("-o")
        .arg(output);
    command
}

#[track_caller]
fn written(output: &Output, path: &Path) -> fs::Metadata {
    assert!(output.status.success(), "{}: {}", path.display(), said(output));
    fs::metadata(path).unwrap()
}

#[test]
fn a_new_file_has_the_mode_that_the_umask_leaves() {
    let user = User::new();
    let (_systems, folders) = shared();
    for folder in folders {
        for (umask, mode) in [("077", 0o600), ("027", 0o640), ("022", 0o644), ("000", 0o666)] {
            let path = folder.join(format!("of-{umask}.json.gz"));
            let output = convert(&user, &format!("umask {umask}"), &path).output().unwrap();
            let made = written(&output, &path);
            assert_eq!((made.mode() & 0o7777, made.uid()), (mode, USER), "{}", path.display());
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4, "nothing else is left");
    }
}

#[test]
fn an_existing_output_keeps_its_mode() {
    let user = User::new();
    let (_systems, folders) = shared();
    for folder in folders {
        let path = folder.join("old.json.gz");
        fs::write(&path, "old").unwrap();
        chown(&path, Some(USER), Some(USER)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let output = convert(&user, "umask 077", &path).output().unwrap();
        let made = written(&output, &path);
        assert_eq!(made.mode() & 0o7777, 0o640, "{}", path.display());
        assert!(made.len() > 3);
    }
}

#[test]
fn another_users_file_is_left_unchanged() {
    let user = User::new();
    let (_systems, folders) = shared();
    for folder in folders {
        let path = folder.join("profile.json.gz");
        fs::write(&path, "theirs").unwrap();
        chown(&path, Some(OTHER), Some(OTHER)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let output = convert(&user, "umask 077", &path).output().unwrap();
        assert!(!output.status.success());
        for word in ["profile.json.gz", "user 64124", "remove it, or choose another path"] {
            assert!(said(&output).contains(word), "{word}: {}", said(&output));
        }
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
    }
}

#[test]
fn predictable_names_are_not_used() {
    let user = User::new();
    let (_systems, folders) = shared();
    for folder in folders {
        let path = folder.join("profile.json.gz");
        let mut running = convert(&user, "read line", &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The shell becomes ngmi, so its pid is known.
        let taken = folder.join(format!("profile.json.gz.{}.new", running.id()));
        fs::write(&taken, "theirs").unwrap();
        chown(&taken, Some(OTHER), Some(OTHER)).unwrap();
        running.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let output = running.wait_with_output().unwrap();
        written(&output, &path);
        assert_eq!(fs::read(&taken).unwrap(), b"theirs");
    }
}
