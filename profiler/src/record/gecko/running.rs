//! The profiler of a Firefox that runs already: SIGUSR1 starts it, with its default settings; SIGUSR2 stops it and makes it
//! write its file to the user's folder for downloads. Verified with Firefox 153.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use super::place::{environment_of, folder};
use super::{DUMP_LIMIT, STEP, complete, open, takes};
use crate::capture::proc::pidfd;
use crate::record::attachments::SIZE_LIMIT;

/// Name of its thread that takes samples, which exists while the profiler runs.
const SAMPLER: &[u8] = b"SamplerThread\n";
/// What to do instead.
const INSTEAD: &str = "save a profile with Firefox's own profiler and run `ngmi load --merge FILE`";
/// How long the recording waits for the profiler to start.
const START_LIMIT: Duration = Duration::from_secs(2);

/// A Firefox whose profiler we start and stop. Stops it when dropped.
#[derive(Debug)]
pub struct RunningFirefox(Arc<Handle>);

/// What the recording shares with the handler of signals.
#[derive(Debug)]
pub struct Handle {
    pid: u32,
    /// Signals through it can't reach a later process with the same id.
    process: OwnedFd,
    /// The file that it will write.
    file: PathBuf,
    phase: Mutex<Phase>,
}

/// What we did to its profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It is not ours: not started, or its file was collected.
    Idle,
    /// Started by us; whether it was seen to sample since.
    Started { is_seen: bool },
    /// Stopped by us: it writes its file.
    Stopped,
}

impl RunningFirefox {
    /// Finds the Firefox among these processes.
    ///
    /// # Errors
    /// None of them is one, or it can't be started and collected safely.
    pub fn find(pids: &[u32]) -> Result<Self> {
        let Some(pid) = pids.iter().copied().find(|pid| is_firefox(*pid)) else {
            bail!(
                "--gecko: no process named with -p is the main process of a Firefox whose profiler can be started by a \
                 signal (about version 140 and later); {INSTEAD}"
            );
        };
        let process = pidfd::open(pid).with_context(|| format!("--gecko: process {pid}"))?;
        let owner = fs::metadata(format!("/proc/{pid}")).map(|metadata| metadata.uid());
        if owner.ok() != Some(geteuid().as_raw()) {
            bail!("--gecko: process {pid} belongs to another user; record as that user, or {INSTEAD}");
        }
        if namespace("self") != namespace(&pid.to_string()) {
            bail!("--gecko: process {pid} runs in a container, so the file of its profiler can't be found; {INSTEAD}");
        }
        let folder = folder(&environment_of(pid)?).ok_or_else(|| {
            anyhow!(
                "--gecko: the folder for the file of process {pid} is unknown: its MOZ_UPLOAD_DIR, or else its HOME, must be \
                 an absolute path; {INSTEAD}"
            )
        })?;
        let handle = Handle {
            pid,
            process,
            // The parent process has number 0 among Firefox's kinds of processes.
            file: folder.join(format!("profile_0_{pid}.json")),
            phase: Mutex::new(Phase::Idle),
        };
        handle.check_idle()?;
        Ok(Self(Arc::new(handle)))
    }

    /// Starts its profiler, and waits up to 2 s until it runs.
    ///
    /// # Errors
    /// The process has ended or changed, or its profiler was started by something else since it was found.
    pub fn start(&mut self) -> Result<()> {
        self.0.start()?;
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline && !self.0.look() && !pidfd::has_ended(&self.0.process) {
            sleep(STEP);
        }
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// For the handler of signals, which may end ngmi before this is dropped.
    pub fn handle(&self) -> Arc<Handle> {
        self.0.clone()
    }

    /// Stops its profiler, and copies its file to the folder.
    ///
    /// # Errors
    /// There is no complete file, or it is too large or could not be copied and so stays where it is; the text is for
    /// the user.
    pub fn collect(self, folder: &Path) -> Result<Collected, String> {
        let file = self.0.stop()?;
        let shown = self.0.file.display();
        if file.metadata().is_ok_and(|metadata| metadata.len() > SIZE_LIMIT) {
            return Err(format!(
                "{shown} is larger than 256 MiB; run `ngmi load --merge {shown}`"
            ));
        }
        let name = self.0.file.file_name().unwrap_or_default();
        copy(&file, &folder.join(name)).map_err(|error| {
            let folder = folder.display();
            format!("{shown} could not be copied to {folder}: {error}; run `ngmi load --merge {shown}`")
        })?;
        let handle = self.handle();
        Ok(Collected { handle, file })
    }
}

/// The file that it wrote, which stays where it is until its copy is safe.
#[derive(Debug)]
pub struct Collected {
    handle: Arc<Handle>,
    file: File,
}

impl Collected {
    /// Its path.
    pub fn place(&self) -> &Path {
        &self.handle.file
    }

    /// Removes it.
    pub fn remove(&self) {
        self.handle.remove(&self.file);
    }
}

impl Drop for RunningFirefox {
    fn drop(&mut self) {
        if let Ok(file) = self.0.stop() {
            self.0.remove(&file);
        }
    }
}

impl Handle {
    /// Checks that it is the Firefox that was found, that its profiler is idle, and that its file doesn't exist.
    fn check_idle(&self) -> Result<()> {
        let (pid, shown) = (self.pid, self.file.display());
        if !self.is_same() {
            bail!("--gecko: process {pid} ended, or no longer catches the signals of its profiler; {INSTEAD}");
        }
        if is_sampling(pid) {
            bail!("--gecko: the profiler of process {pid} runs already; stop it first, or {INSTEAD}");
        }
        if self.file.symlink_metadata().is_ok() {
            bail!("--gecko: Firefox would overwrite {shown}; move it first");
        }
        Ok(())
    }

    /// Whether it is still a Firefox that catches the signals. It may have executed another program, which they would end.
    fn is_same(&self) -> bool {
        !pidfd::has_ended(&self.process) && is_firefox(self.pid)
    }

    /// Locked while a signal is checked and sent, since the handler of signals sends one as well.
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<()> {
        let mut phase = self.phase();
        self.check_idle()?; // sudo may have asked for a password since
        pidfd::send(&self.process, Signal::SIGUSR1).with_context(|| format!("--gecko: process {}", self.pid))?;
        *phase = Phase::Started { is_seen: false };
        Ok(())
    }

    /// Whether it samples for us.
    fn look(&self) -> bool {
        let is_sampling = is_sampling(self.pid);
        if let Phase::Started { is_seen } = &mut *self.phase() {
            *is_seen |= is_sampling;
        }
        is_sampling
    }

    /// Requests its file, unless that could end another program, or stop the profiler for someone else.
    fn request(&self) -> Result<(), String> {
        let mut phase = self.phase();
        let (pid, shown) = (self.pid, self.file.display());
        let Phase::Started { is_seen } = *phase else {
            return Err(format!(
                "the profiler of Firefox (process {pid}) was not running for ngmi"
            ));
        };
        *phase = Phase::Idle;
        if !self.is_same() {
            return Err(format!(
                "Firefox (process {pid}) ended before its profiler was stopped: its markers are lost"
            ));
        }
        if self.file.symlink_metadata().is_ok() {
            return Err(format!(
                "{shown} was not requested by ngmi, which left it and the profiler of Firefox alone; if it is the profile \
                 of this recording, run `ngmi load --merge {shown}`"
            ));
        }
        // One that was not seen to start gets this signal after the first one.
        if is_seen && !is_sampling(pid) {
            return Err(format!(
                "the profiler of Firefox (process {pid}) was stopped before the recording ended; if you saved its profile, \
                 run `ngmi load --merge FILE`"
            ));
        }
        pidfd::send(&self.process, Signal::SIGUSR2)
            .map_err(|error| format!("the profiler of Firefox (process {pid}) could not be stopped: {error}"))?;
        *phase = Phase::Stopped;
        Ok(())
    }

    /// Stops it, and waits for its complete file.
    fn stop(&self) -> Result<File, String> {
        self.request()?;
        let deadline = Instant::now() + DUMP_LIMIT;
        loop {
            let is_over = Instant::now() >= deadline;
            let has_ended = pidfd::has_ended(&self.process);
            if let Some(file) = complete(&self.file) {
                return Ok(file);
            }
            let shown = self.file.display();
            if has_ended {
                return Err(format!(
                    "Firefox (process {}) ended before {shown} was complete",
                    self.pid
                ));
            }
            if is_over {
                return Err(format!(
                    "Firefox's profiler did not write {shown} within 10 s; when it has, run `ngmi load --merge {shown}`"
                ));
            }
            sleep(STEP);
        }
    }

    /// Stops it without waiting for its file; the text is for the user. `None`: there is nothing to stop.
    pub fn abandon(&self) -> Option<String> {
        let phase = *self.phase();
        if phase == Phase::Idle {
            return None;
        }
        let requested = if phase == Phase::Stopped {
            Ok(())
        } else {
            self.request()
        };
        Some(requested.map_or_else(
            |problem| problem,
            |()| format!("Firefox stops its profiler and writes {}", self.file.display()),
        ))
    }

    /// Removes the file that it wrote for us.
    fn remove(&self, ours: &File) {
        let id = |file: &File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
        if open(&self.file).is_ok_and(|file| id(&file) == id(ours)) {
            let _ = fs::remove_file(&self.file); // the user sees what is left
        }
        *self.phase() = Phase::Idle;
    }
}

/// Copies a file that is not too large; leaves no part of it behind.
fn copy(from: &File, to: &Path) -> io::Result<()> {
    let mut copy = File::create_new(to)?;
    let copied = io::copy(&mut from.take(SIZE_LIMIT), &mut copy);
    copied.map(drop).inspect_err(|_| {
        let _ = fs::remove_file(to); // the folder is removed with it
    })
}

/// Whether it is Firefox's main process, and neither signal would end it.
fn is_firefox(pid: u32) -> bool {
    takes(pid, &[Signal::SIGUSR1, Signal::SIGUSR2])
}

fn is_sampling(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names = tasks.filter_map(|task| fs::read(task.path().join("comm")).ok());
    names.any(|name| name == SAMPLER)
}

fn namespace(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
