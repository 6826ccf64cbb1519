//! `--exact-touch`: while a recording runs, the kernel maps no pages around a fault. However the recording ends, the
//! setting is restored.
//!
//! The setting applies to the whole machine. Its original value is kept in a file of /run while it is changed, and
//! each recorder that needs the change holds a shared lock on that file; the lock ends with its process. A recorder
//! that finds no other lock is the last one, or follows one that was killed, and restores the setting. All this
//! happens under a lock on the folder. See docs/page-faults.md.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use super::hook::row;
use crate::proc::debugfs::Debugfs;
use crate::proc::machine;
use crate::proc::page_cache::page_size;
use base::event::{EXACT_TOUCH, HookStatus};

/// The kernel's name of the setting (`mm/memory.c`): bytes that are mapped around a fault at most; one page means
/// none.
const SETTING: &str = "fault_around_bytes";
/// The folder of the original value; it is empty after a reboot.
const FOLDER: &str = "/run/ngmi";
/// The file with the original value.
const REMEMBERED: &str = "fault-around";
/// Bytes of that file that are read at most.
const LONGEST: u64 = 256;
const ALTERNATIVE: &str =
    "record without --exact-touch: `pages_around` then shows how many pages each fault may have hidden";

/// Bytes that the kernel maps around a fault at most; `None`: it does not show them.
pub fn around() -> Option<u64> {
    Debugfs::open().ok()?.read(SETTING).ok()
}

/// Where the setting is, and where its original value is kept.
#[derive(Debug)]
struct Places {
    debugfs: Debugfs,
    folder: PathBuf,
}

/// A recording for which the setting is changed. Dropping it restores the setting.
#[derive(Debug)]
pub struct ExactTouch {
    places: Places,
    /// The original value, in bytes.
    before: u64,
    /// The file, with our shared lock while we need the change.
    remembered: Option<File>,
}

/// What happened to a setting that no recorder needs changed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PutBack {
    /// It was restored, to this many bytes.
    Done(u64),
    /// It had been set to another value in the meantime.
    Changed,
}

impl ExactTouch {
    /// Changes the setting for the whole machine. Also returns a message for the user if a killed recorder had left
    /// it changed.
    ///
    /// # Errors
    /// When it can't be changed, with the remedy; then nothing is changed.
    pub fn begin() -> anyhow::Result<(Self, Option<String>)> {
        let debugfs = Debugfs::open().map_err(|error| refused(&error))?;
        let folder = PathBuf::from(FOLDER);
        Self::begin_at(Places { debugfs, folder })
    }

    fn begin_at(places: Places) -> anyhow::Result<(Self, Option<String>)> {
        places.debugfs.may_write(SETTING).map_err(|error| refused(&error))?;
        let _turn = places
            .turn()
            .with_context(|| format!("--exact-touch cannot save the setting in {}", places.folder.display()))?;
        let mut left = None;
        let (file, before) = match places.open()? {
            Some(file) if is_held(&file)? => {
                let before = remembered(&file)?;
                (file, before)
            }
            Some(file) => {
                left = Some(places.put_back(&file)?);
                places.remember()?
            }
            None => places.remember()?,
        };
        file.lock_shared()?;
        let begun = Self {
            places,
            before,
            remembered: Some(file),
        };
        begun.set()?;
        Ok((begun, left.and_then(describe)))
    }

    fn set(&self) -> anyhow::Result<()> {
        let page = page_size();
        let debugfs = &self.places.debugfs;
        debugfs.write(SETTING, page).map_err(|error| refused(&error))?;
        let is = debugfs.read(SETTING).map_err(|error| refused(&error))?;
        if is != page {
            bail!("the kernel keeps {SETTING} at {is}; {ALTERNATIVE}");
        }
        Ok(())
    }

    /// The status for the log and the profile.
    pub fn status(&self) -> HookStatus {
        let name = format!("{EXACT_TOUCH} ({SETTING} {}, was {})", page_size(), self.before);
        row("fault", &name, None, "")
    }

    /// Restores the setting if no other recorder needs the change; a second call does nothing.
    ///
    /// # Errors
    /// When the kernel refuses; the next recording, or `ngmi doctor`, then tries again.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let Some(file) = self.remembered.take() else {
            return Ok(());
        };
        let ended = || -> anyhow::Result<()> {
            let _turn = self.places.turn()?;
            file.unlock()?;
            if !is_held(&file)? {
                self.places.put_back(&file)?;
            }
            Ok(())
        };
        ended().with_context(|| {
            format!(
                "{SETTING} was {} and could not be restored; run `sudo ngmi doctor` to try again",
                self.before
            )
        })
    }
}

impl Drop for ExactTouch {
    fn drop(&mut self) {
        // A caller that can report the error has called it before.
        let _ = self.end();
    }
}

/// Restores the setting if a killed recorder left it changed, and returns a message about it. Otherwise it costs one
/// look at a folder.
///
/// # Errors
/// When it was left changed and could not be restored.
pub fn recover() -> anyhow::Result<Option<String>> {
    let folder = PathBuf::from(FOLDER);
    if !nix::unistd::geteuid().is_root() || !folder.join(REMEMBERED).exists() {
        return Ok(None);
    }
    let debugfs = Debugfs::open().context("cannot mount the kernel's debug file system")?;
    Places { debugfs, folder }.recover()
}

/// Rows for `ngmi doctor`: whether `--exact-touch` would work, and a setting that a killed recorder left and that is
/// restored now.
pub fn rows() -> Vec<HookStatus> {
    let mut rows = Vec::new();
    match recover() {
        Ok(None) => {}
        Ok(Some(restored)) => rows.push(row("fault", &restored, None, "")),
        Err(error) => rows.push(row(
            "fault",
            "setting left by a killed recorder",
            Some(format!("{error:#}")),
            &format!("`echo 65536 | sudo tee /sys/kernel/debug/{SETTING}` (the kernel's default) sets it by hand"),
        )),
    }
    let asked = Debugfs::open().and_then(|debugfs| debugfs.may_write(SETTING));
    let refused = asked.err().map(|error| why(&error));
    rows.push(row(
        "fault",
        "--exact-touch (fault_around_bytes)",
        refused,
        "no action needed, unless you want --exact-touch",
    ));
    rows
}

impl Places {
    /// Locks the folder: until the lock is dropped, no other process uses the file or the setting.
    fn turn(&self) -> io::Result<File> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let folder = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(&self.folder)?;
        only_ours(&folder)?;
        folder.lock()?;
        Ok(folder)
    }

    /// Opens the file, if there is one.
    fn open(&self) -> io::Result<Option<File>> {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(self.folder.join(REMEMBERED));
        match opened {
            Ok(file) => only_ours(&file).map(|()| Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Saves the current value of the setting.
    fn remember(&self) -> anyhow::Result<(File, u64)> {
        let before = self.debugfs.read(SETTING).map_err(|error| refused(&error))?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(self.folder.join(REMEMBERED))?;
        file.write_all(format!("{}\n{before}\n", machine::boot_id()).as_bytes())?;
        Ok((file, before))
    }

    /// With no other lock on the file: restores the value in it, unless the setting has been changed in the meantime,
    /// and removes the file.
    fn put_back(&self, file: &File) -> io::Result<PutBack> {
        let done = match (remembered(file), self.debugfs.read(SETTING)?) {
            (Ok(before), now) if now == page_size() => {
                self.debugfs.write(SETTING, before)?;
                PutBack::Done(before)
            }
            // It was killed before it changed anything, the file is of an earlier boot, or a person changed the
            // setting.
            _ => PutBack::Changed,
        };
        std::fs::remove_file(self.folder.join(REMEMBERED))?;
        Ok(done)
    }

    fn recover(&self) -> anyhow::Result<Option<String>> {
        let _turn = self.turn()?;
        let Some(file) = self.open()?.filter(|file| matches!(is_held(file), Ok(false))) else {
            return Ok(None);
        };
        let put_back = self.put_back(&file);
        Ok(describe(put_back.with_context(|| {
            format!("a killed recorder left {SETTING} changed")
        })?))
    }
}

fn describe(put_back: PutBack) -> Option<String> {
    match put_back {
        PutBack::Done(before) => Some(format!(
            "{SETTING} restored to {before}: a killed recorder had left it at {}",
            page_size()
        )),
        PutBack::Changed => None,
    }
}

/// Whether another recorder needs the change. If not, the file is locked exclusively until it is closed or locked
/// otherwise.
fn is_held(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The original value, if it was saved in this boot.
fn remembered(mut file: &File) -> io::Result<u64> {
    io::Seek::rewind(&mut file)?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    let mut lines = text.lines();
    let is_this_boot = lines.next() == Some(machine::boot_id().as_str());
    let bytes = lines.next().and_then(|line| line.parse().ok());
    bytes.filter(|_| is_this_boot).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{FOLDER}/{REMEMBERED} is from an earlier boot: remove it"),
        )
    })
}

/// Refuses a file that others could have written.
fn only_ours(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if metadata.uid() != nix::unistd::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("other users may write to it: remove it"));
    }
    Ok(())
}

fn refused(error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("--exact-touch is not available: {}; {ALTERNATIVE}", why(error))
}

/// Why the setting can't be changed here.
fn why(error: &io::Error) -> String {
    let is_root = nix::unistd::geteuid().is_root();
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) if !is_root => "only root may set fault_around_bytes".to_owned(),
        Some(libc::EPERM | libc::EACCES) => {
            "this kernel (lockdown, debugfs=off) or container forbids its debug file system".to_owned()
        }
        Some(libc::ENOENT) => format!("this kernel has no {SETTING} (CONFIG_DEBUG_FS is needed)"),
        Some(libc::ENODEV | libc::ENOSYS) => "this kernel has no debug file system".to_owned(),
        Some(libc::EROFS) => "the debug file system can't be written to".to_owned(),
        _ => format!("{SETTING}: {error}"),
    }
}

#[cfg(test)]
mod tests;
