//! Runs `ngmi` in a separate folder and keeps its output, exit status and files.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::taken::taken;
use super::{Oracle, Profile};

/// Time limit of a single run.
const LIMIT: Duration = Duration::from_mins(2);
/// The same in a guest, where the recorder alone takes a minute to begin.
const EMULATED_LIMIT: Duration = Duration::from_mins(10);

fn limit() -> Duration {
    let is_emulated = std::env::var_os("NGMI_FAULT_SLOW").is_some();
    if is_emulated { EMULATED_LIMIT } else { LIMIT }
}

/// A configured run of `ngmi`.
pub struct Ngmi {
    command: Command,
    dir: tempfile::TempDir,
    program: Vec<OsString>,
}

/// A run of `ngmi` in progress.
pub struct Running {
    child: Child,
    taken_before: Duration,
    dir: tempfile::TempDir,
}

/// A finished run of `ngmi`.
pub struct Outcome {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output of ngmi and the program.
    pub stdout: String,
    /// Standard error of ngmi and the program.
    pub stderr: String,
    /// Time that the hypervisor and interrupts took from the machine's CPUs during the run, in ms.
    pub taken_ms: f64,
    /// Folder of the run; `out.json.gz` is the profile.
    pub dir: tempfile::TempDir,
}

/// The binary under test.
pub fn binary() -> PathBuf {
    std::env::var_os("NGMI_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_ngmi")), PathBuf::from)
}

impl Ngmi {
    /// `ngmi SUBCOMMAND` without arguments.
    pub fn subcommand(subcommand: &str) -> Self {
        Self::started_by(Command::new(binary()), subcommand)
    }

    fn started_by(mut command: Command, subcommand: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("ngmi-test-").tempdir().unwrap();
        command.arg(subcommand).current_dir(dir.path()).stdin(Stdio::null());
        // The tests themselves may run under sudo; only tests about sudo set its variables.
        for name in [
            "SUDO_UID",
            "SUDO_GID",
            "SUDO_USER",
            "SUDO_COMMAND",
            "NGMI_SYMBOL_SERVER",
        ] {
            command.env_remove(name);
        }
        // Empty, it also hides the servers that the system names.
        command.env("DEBUGINFOD_URLS", "");
        Self {
            command,
            dir,
            program: Vec::new(),
        }
    }

    /// `ngmi record --save-only -o out.json.gz`, at the default rate, whatever it costs.
    pub fn record() -> Self {
        Self::limited("off")
    }

    /// Like [`Self::record`], but keeps this limit of cost.
    pub fn limited(max_overhead: &str) -> Self {
        Self::subcommand("record").args(["--save-only", "-o", "out.json.gz", "--max-overhead", max_overhead])
    }

    /// Like [`Self::record`], in a shell that sets limits first (`ulimit -n 100`).
    pub fn record_under(limits: &str) -> Self {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")])
            .arg(binary());
        Self::started_by(shell, "record").args(["--save-only", "-o", "out.json.gz", "--max-overhead", "off"])
    }

    /// Like [`Self::record`], as root under sudo started by this user. [`Self::env`] sets that user's variables, not root's.
    pub fn record_as_sudo(user: u32) -> Self {
        let mut sudo = Command::new(Oracle::c("assudo").path);
        sudo.arg(user.to_string()).arg(binary());
        Self::started_by(sudo, "record").args(["--save-only", "-o", "out.json.gz", "--max-overhead", "off"])
    }

    /// Adds arguments for `ngmi`.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Adds one argument for `ngmi`.
    pub fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Folder in which it will run.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Sets the program to record.
    pub fn program<S: AsRef<OsStr>>(mut self, program: impl AsRef<OsStr>, args: impl IntoIterator<Item = S>) -> Self {
        self.program = vec![program.as_ref().to_owned()];
        self.program.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Starts the run.
    pub fn start(mut self) -> Running {
        if !self.program.is_empty() {
            self.command.arg("--").args(&self.program);
        }
        // Files, not pipes: a daemon that outlives the run must not keep the test waiting.
        let file = |name: &str| std::fs::File::create(self.dir.path().join(name)).unwrap();
        let child = self
            .command
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        Running {
            child,
            taken_before: taken(),
            dir: self.dir,
        }
    }

    /// Runs it until it ends.
    pub fn run(self) -> Outcome {
        self.start().wait()
    }
}

impl Running {
    /// Process ID of `ngmi`.
    pub fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Folder of the run.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(self.pid(), signal).unwrap();
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        read_lossy(&self.dir.path().join("stderr"))
    }

    /// Waits until `ready` returns true, up to the time limit of a run: a guest on a busy machine needs half a minute to start.
    pub fn wait_until(&mut self, what: &str, mut ready: impl FnMut(&Self) -> bool) {
        let (start, limit) = (Instant::now(), limit());
        while !ready(self) {
            let status = self.child.try_wait().unwrap();
            let stderr = self.stderr();
            assert!(status.is_none(), "ngmi ended ({status:?}) before {what}: {stderr}");
            assert!(start.elapsed() < limit, "no {what} within {limit:?}: {stderr}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it ends.
    pub fn wait(mut self) -> Outcome {
        let (start, limit) = (Instant::now(), limit());
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > limit {
                self.child.kill().unwrap();
                panic!("ngmi did not end within {limit:?}: {}", self.stderr());
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let (stdout, stderr) = (read_lossy(&self.dir.path().join("stdout")), self.stderr());
        Outcome {
            status,
            stdout,
            stderr,
            taken_ms: taken().saturating_sub(self.taken_before).as_secs_f64() * 1e3,
            dir: self.dir,
        }
    }
}

impl Outcome {
    /// Path of a file in the run's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Asserts that a thread's CPU time in ms equals its own clock's measurement, within `tolerance`. That clock stops while the CPU is
    /// taken away, so the time between a thread's context switches may be longer by that time.
    #[track_caller]
    pub fn assert_cpu_ms(&self, what: &str, value: f64, measured: f64, tolerance: f64) {
        // /proc/stat counts each kind in steps of 10 ms.
        let taken = (value - measured).clamp(0.0, self.taken_ms + 10.0);
        let what = format!("CPU time of {what}, in ms ({:.0} taken away)", self.taken_ms);
        super::assert_near(&what, value - taken, measured, tolerance);
    }

    /// Exit status, or 128 + N for signal N.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .or_else(|| Some(128 + self.status.signal()?))
            .unwrap()
    }

    /// Asserts that it ended with this exit status.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code(), code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.expect_no_panic()
    }

    /// Asserts that neither the recorder nor the privileged helper panicked.
    #[track_caller]
    pub fn expect_no_panic(&self) -> &Self {
        assert!(!self.stderr.contains("panicked at"), "{}", self.stderr);
        self
    }

    /// Asserts that it was refused, with a message that contains all `words`.
    #[track_caller]
    pub fn expect_refusal(&self, words: &[&str]) {
        self.expect_no_panic();
        assert_ne!(self.code(), 0, "no refusal: {}{}", self.stdout, self.stderr);
        for word in words {
            assert!(
                self.stderr.contains(word),
                "the message does not contain {word:?}: {}",
                self.stderr
            );
        }
    }

    /// The profile of a successful run.
    #[track_caller]
    pub fn profile(&self) -> Profile {
        self.expect_code(0);
        self.profile_at("out.json.gz")
    }

    /// The profile in this file.
    #[track_caller]
    pub fn profile_at(&self, name: &str) -> Profile {
        self.expect_no_panic();
        let path = self.file(name);
        assert!(
            path.exists(),
            "no {name}\nstdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        Profile::read(&path)
    }

    /// Asserts that the folder contains only the `expected` files, and no partial ones.
    #[track_caller]
    pub fn expect_files(&self, expected: &[&str]) {
        let mut found: Vec<String> = std::fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name != "stdout" && name != "stderr")
            .collect();
        found.sort();
        assert_eq!(found, expected, "stderr: {}", self.stderr);
    }
}

/// A file's text; invalid UTF-8 is replaced.
pub fn read_lossy(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}
