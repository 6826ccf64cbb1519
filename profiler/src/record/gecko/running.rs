//! The profiler of a Firefox that runs already: SIGUSR1 starts it, with its default settings; SIGUSR2 stops it and makes it
//! write its file to the user's folder for downloads. Verified with Firefox 153.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use super::{DUMP_LIMIT, ON_SIGNAL, STEP, is_complete, takes};
use crate::capture::proc::pidfd;
use crate::record::identity::Environment;

/// Name of its thread that takes samples, which exists while the profiler runs.
const SAMPLER: &[u8] = b"SamplerThread\n";
/// What to do instead.
const INSTEAD: &str = "save a profile with Firefox's own profiler and run `ngmi load --merge FILE`";
/// Maximum bytes of the list of the user's folders.
const LIST: u64 = 64 << 10;

/// A Firefox whose profiler we start and stop. Stops it when dropped.
#[derive(Debug)]
pub struct RunningFirefox {
    pid: u32,
    /// Signals through it can't reach a later process with the same id.
    process: OwnedFd,
    /// The file that it will write.
    file: PathBuf,
    is_started: bool,
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
        if is_sampling(pid) {
            bail!("--gecko: the profiler of process {pid} runs already; stop it first, or {INSTEAD}");
        }
        let folder = folder(&environment_of(pid)?)
            .ok_or_else(|| anyhow!("--gecko: process {pid} has no folder for downloads (HOME); {INSTEAD}"))?;
        // The parent process has number 0 among Firefox's kinds of processes.
        let file = folder.join(format!("profile_0_{pid}.json"));
        if file.symlink_metadata().is_ok() {
            bail!("--gecko: Firefox would overwrite {}; move it first", file.display());
        }
        if !is_firefox(pid) {
            bail!("--gecko: process {pid} ended"); // before its descriptor was opened
        }
        Ok(Self {
            pid,
            process,
            file,
            is_started: false,
        })
    }

    /// Starts its profiler.
    ///
    /// # Errors
    /// The process has ended.
    pub fn start(&mut self) -> Result<()> {
        pidfd::send(&self.process, Signal::SIGUSR1).with_context(|| format!("--gecko: process {}", self.pid))?;
        self.is_started = true;
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Stops its profiler, and moves its file to the folder.
    ///
    /// # Errors
    /// There is no complete file; the text is for the user.
    pub fn collect(mut self, folder: &Path) -> Result<(), String> {
        let shown = self.file.display().to_string();
        if !self.stop() {
            return Err(format!("Firefox's profiler did not write {shown} within 10 s"));
        }
        let name = self.file.file_name().unwrap_or_default();
        let moved =
            open(&self.file).and_then(|mut from| io::copy(&mut from, &mut File::create_new(folder.join(name))?));
        self.remove();
        moved
            .map(drop)
            .map_err(|error| format!("{shown} could not be read: {error}"))
    }

    /// Whether its file is complete.
    fn stop(&mut self) -> bool {
        if !std::mem::take(&mut self.is_started) || pidfd::send(&self.process, Signal::SIGUSR2).is_err() {
            return false;
        }
        let deadline = Instant::now() + DUMP_LIMIT;
        loop {
            let is_whole = open(&self.file).is_ok() && is_complete(&self.file);
            let is_over = Instant::now() >= deadline || !Path::new(&format!("/proc/{}", self.pid)).exists();
            if is_whole || is_over {
                return is_whole;
            }
            sleep(STEP);
        }
    }

    /// Removes the file, which did not exist before.
    fn remove(&self) {
        if open(&self.file).is_ok() {
            let _ = fs::remove_file(&self.file); // the user sees what is left
        }
    }
}

impl Drop for RunningFirefox {
    fn drop(&mut self) {
        if self.is_started {
            self.stop();
            self.remove();
        }
    }
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

/// The variables that it was started with.
fn environment_of(pid: u32) -> Result<Environment> {
    let path = format!("/proc/{pid}/environ");
    let bytes = fs::read(&path).with_context(|| format!("--gecko: cannot read {path}"))?;
    let variables = bytes.split(|byte| *byte == 0).filter_map(|variable| {
        let at = variable.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Some((text(&variable[..at]), text(&variable[at + 1..])))
    });
    Ok(variables.collect())
}

/// Where it writes: its variable, or the user's folder for downloads, as `xdg-user-dirs` keeps it.
fn folder(environment: &Environment) -> Option<PathBuf> {
    let value = |name: &str| environment.get(OsStr::new(name)).filter(|value| !value.is_empty());
    if let Some(folder) = value(ON_SIGNAL) {
        return Some(folder.into());
    }
    let home = PathBuf::from(value("HOME")?);
    let config = value("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    let mut list = String::new();
    let opened = open(&config.join("user-dirs.dirs"));
    let read = opened.and_then(|file| file.take(LIST).read_to_string(&mut list));
    let mut lines = list
        .lines()
        .filter_map(|line| line.trim().strip_prefix("XDG_DOWNLOAD_DIR="));
    let listed = lines
        .next_back()
        .map(|path| path.trim_matches('"'))
        .filter(|_| read.is_ok());
    let listed = listed.and_then(|path| match path.strip_prefix("$HOME") {
        Some(rest) => Some(home.join(rest.trim_start_matches('/'))),
        None => path.starts_with('/').then(|| path.into()),
    });
    Some(listed.unwrap_or_else(|| home.join("Downloads")))
}

/// Opens a regular file of ours, and waits for nothing.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() == geteuid().as_raw() {
        Ok(file)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A shell in the place of Firefox: next to its library, with handlers of both signals. The second writes its file.
    fn firefox(folder: &Path, text: &str) -> Child {
        fs::copy("/bin/sh", folder.join("browser")).unwrap();
        File::create(folder.join("libxul.so")).unwrap();
        let text = text.replace('"', "\\\"");
        let script = format!(
            "trap ': > started' USR1; trap \"printf %s '{text}' > profile_0_$$.json\" USR2; : > ready; \
             while [ ! -e stop ]; do sleep 0.02; done"
        );
        fs::write(folder.join("script"), script).unwrap();
        let mut shell = Command::new(folder.join("browser"));
        shell.arg("script").current_dir(folder).env(ON_SIGNAL, folder);
        let child = shell.spawn().unwrap();
        wait_for(&folder.join("ready"));
        child
    }

    fn wait_for(path: &Path) {
        while !path.exists() {
            sleep(STEP);
        }
    }

    fn end(folder: &Path, mut child: Child) {
        File::create(folder.join("stop")).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_firefox_is_started_and_its_file_moved() {
        let (folder, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let text = r#"{"a":1,"profileGatheringLogEnd_TSms":7.5}"#;
        let child = firefox(folder.path(), text);
        let mut running = RunningFirefox::find(&[std::process::id(), child.id()]).unwrap();
        assert_eq!(running.pid(), child.id());
        running.start().unwrap();
        wait_for(&folder.path().join("started"));
        running.collect(ours.path()).unwrap();
        let name = format!("profile_0_{}.json", child.id());
        assert_eq!(fs::read_to_string(ours.path().join(&name)).unwrap(), text);
        assert!(!folder.path().join(&name).exists());
        // A file of the user is never overwritten.
        fs::write(folder.path().join(&name), "theirs").unwrap();
        let error = RunningFirefox::find(&[child.id()]).unwrap_err().to_string();
        assert!(error.contains("would overwrite"), "{error}");
        end(folder.path(), child);
    }

    #[test]
    fn a_failed_recording_stops_it_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let child = firefox(folder.path(), r#"{"profileGatheringLogEnd_TSms":7.5}"#);
        let mut running = RunningFirefox::find(&[child.id()]).unwrap();
        running.start().unwrap();
        drop(running);
        assert!(!folder.path().join(format!("profile_0_{}.json", child.id())).exists());
        end(folder.path(), child);
    }

    #[test]
    fn a_firefox_that_ends_is_no_wait() {
        let folder = tempfile::tempdir().unwrap();
        let child = firefox(folder.path(), "{");
        let mut running = RunningFirefox::find(&[child.id()]).unwrap();
        running.start().unwrap();
        end(folder.path(), child);
        let began = Instant::now();
        assert!(running.collect(folder.path()).unwrap_err().contains("did not write"));
        assert!(began.elapsed() < DUMP_LIMIT);
    }

    #[test]
    fn other_processes_get_no_signal() {
        let error = RunningFirefox::find(&[std::process::id()]).unwrap_err().to_string();
        assert!(error.contains("ngmi load --merge"), "{error}");
    }

    #[test]
    fn the_folder_for_downloads_is_the_users() {
        let home = tempfile::tempdir().unwrap();
        let mut environment = Environment::new();
        assert_eq!(folder(&environment), None);
        environment.insert("HOME".into(), home.path().into());
        assert_eq!(folder(&environment), Some(home.path().join("Downloads")));
        fs::create_dir(home.path().join(".config")).unwrap();
        let list = "# x\nXDG_DOWNLOAD_DIR=\"$HOME/Laden\"\nXDG_DESKTOP_DIR=\"/x\"\n";
        fs::write(home.path().join(".config/user-dirs.dirs"), list).unwrap();
        assert_eq!(folder(&environment), Some(home.path().join("Laden")));
        environment.insert(ON_SIGNAL.into(), "/elsewhere".into());
        assert_eq!(folder(&environment), Some("/elsewhere".into()));
    }
}
