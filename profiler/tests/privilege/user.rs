//! An ordinary user with a separate folder, which contains an ngmi with file capabilities.

use std::ffi::OsStr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::skip::skip;
use crate::harness::{Oracle, Profile, ngmi};

/// A uid without an account: none of the machine's own files belong to this user.
pub const USER: u32 = 64_123;
/// The capabilities that a recording can use.
pub const ALL: &str = "cap_bpf,cap_perfmon,cap_syslog,cap_checkpoint_restore+ep";

/// The folder, with `ngmi` and `burn` in it.
pub struct User {
    pub folder: tempfile::TempDir,
}

impl User {
    /// With an ngmi without capabilities.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("ngmi-test-").tempdir().unwrap();
        chown(folder.path(), Some(USER), Some(USER)).unwrap();
        let user = Self { folder };
        // A link would grant them to the binary of all other tests.
        std::fs::copy(ngmi::binary(), user.path("ngmi")).unwrap();
        Oracle::c("burn").copied(&user.path("burn"));
        user
    }

    /// `None` if this machine's files can't have capabilities (printed and counted as skipped).
    pub fn with(capabilities: &str) -> Option<Self> {
        let user = Self::new();
        let done = Command::new("setcap").arg(capabilities).arg(user.path("ngmi")).output();
        match done {
            Ok(done) if done.status.success() => Some(user),
            Ok(done) => {
                skip(&format!("setcap: {}", String::from_utf8_lossy(&done.stderr).trim()));
                None
            }
            Err(error) => {
                skip(&format!("setcap: {error}"));
                None
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program that the user starts, without a sudo in its PATH.
    pub fn runs(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .uid(USER)
            .gid(USER)
            .env_clear()
            .env("PATH", "/nonexistent")
            .env("HOME", self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// `ngmi SUBCOMMAND`.
    pub fn ngmi(&self, subcommand: &str) -> Command {
        let mut command = self.runs(self.path("ngmi"));
        command.arg(subcommand);
        command
    }

    /// `ngmi record --save-only -o out.json.gz WORDS`, to its end.
    pub fn records(&self, words: &[&str]) -> Output {
        let mut command = self.ngmi("record");
        command
            .args(["--save-only", "-o", "out.json.gz"])
            .args(words)
            .output()
            .unwrap()
    }

    #[track_caller]
    pub fn profile(&self, output: &Output) -> Profile {
        assert_eq!(output.status.code(), Some(0), "{}", said(output));
        Profile::read(&self.path("out.json.gz"))
    }

    /// Files in the folder that belong to other users, except those that the test created.
    pub fn files_of_others(&self) -> Vec<PathBuf> {
        let made = ["ngmi", "burn"].map(|name| self.path(name));
        let mut others = Vec::new();
        of_others(self.folder.path(), USER, &mut others);
        others.retain(|path| !made.contains(path));
        others
    }
}

/// Everything below `folder` that is not the user's.
pub fn of_others(folder: &Path, user: u32, found: &mut Vec<PathBuf>) {
    use std::os::unix::fs::MetadataExt as _;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        if metadata.uid() != user || metadata.gid() != user {
            found.push(path.clone());
        }
        if metadata.is_dir() {
            of_others(&path, user, found);
        }
    }
}

/// All output of a program.
pub fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// A line of /proc/PID/status, without its name.
pub fn status(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim_start_matches(':').trim().to_owned()
}
