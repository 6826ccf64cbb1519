//! Programs that their user may execute but not read: no process of that user receives their contents.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::skip::needs_capture;
use crate::harness::{Oracle, ngmi, procfs};

const USER: u32 = 65534;

/// Whether a process has a file open.
fn holds(pid: u32, file: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|path| path == file)
}

fn is_unprivileged(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line == "Uid:\t65534\t65534\t65534\t65534")
}

/// The recorder has a descriptor of the program if, and only if, the user may read it.
#[test]
fn an_unreadable_program_is_not_handed_over() {
    needs_capture!();
    for (mode, may) in [(0o711, false), (0o755, true)] {
        let folder = tempfile::Builder::new().prefix("ngmi-test-").tempdir().unwrap();
        chown(folder.path(), Some(USER), Some(USER)).unwrap();
        let program = folder.path().canonicalize().unwrap().join("burn");
        Oracle::c("burn").copied(&program);
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        let mut recorder = Command::new(ngmi::binary())
            .args(["record", "--save-only", "-o", "out.json.gz", "--", "./burn", "300"])
            .current_dir(folder.path())
            .env("SUDO_UID", USER.to_string())
            .env("SUDO_GID", USER.to_string())
            .env("SUDO_USER", "nobody")
            .env("HOME", folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = recorder.id();
        let mut seen = false;
        while recorder.try_wait().unwrap().is_none() {
            // The privileged helper is root's.
            let all = procfs::descendants(pid).into_iter().chain([pid]);
            seen |= all.filter(|pid| is_unprivileged(*pid)).any(|pid| holds(pid, &program));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(seen, may, "mode {mode:o}");
    }
}
