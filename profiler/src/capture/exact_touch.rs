//! `--exact-touch`: while a recording runs the kernel maps no page around a fault, and whatever happens the setting is put back.
//!
//! The setting is the whole machine's. What it was stays in a file of /run for as long as it is changed, and each recorder that wants it
//! changed holds a shared lock on that file, which ends with its process. Who finds nobody else's lock is the last one, or comes after
//! one that was killed, and puts the setting back. All that happens under a lock on the folder. docs/page-faults.md tells it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use super::debugfs::Debugfs;
use super::page_cache::page_size;
use super::{doctor, machine};
use crate::event::{EXACT_TOUCH, HookStatus};

/// The kernel's name for it (`mm/memory.c`): bytes that are mapped around a fault at most; one page: none are.
const SETTING: &str = "fault_around_bytes";
/// Empty after a reboot.
const FOLDER: &str = "/run/ngmi";
/// Holds what the setting was.
const REMEMBERED: &str = "fault-around";
/// Bytes of that file that are read at most.
const LONGEST: u64 = 256;
const ALTERNATIVE: &str =
    "record without --exact-touch: `pages_around` then says how many pages each fault may have hidden";

/// Where the setting is, and where it is remembered.
#[derive(Debug)]
struct Places {
    debugfs: Debugfs,
    folder: PathBuf,
}

/// A recording for which the setting is changed. Dropped, it puts it back.
#[derive(Debug)]
pub struct ExactTouch {
    places: Places,
    /// What it was, in bytes.
    before: u64,
    /// Locked, shared, as long as we want it changed.
    remembered: Option<File>,
}

/// What became of a setting that nobody wants changed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PutBack {
    /// It is as it was again: so many bytes.
    Done(u64),
    /// Somebody else has set it meanwhile.
    Changed,
}

impl ExactTouch {
    /// Changes the setting for the whole machine. Also returns what to tell the person, if somebody had left it changed.
    ///
    /// # Errors
    /// With the remedy, when it can't be changed; then nothing is.
    pub fn begin() -> anyhow::Result<(Self, Option<String>)> {
        let debugfs = Debugfs::open().map_err(|error| refused(&error))?;
        let folder = PathBuf::from(FOLDER);
        Self::begin_at(Places { debugfs, folder })
    }

    fn begin_at(places: Places) -> anyhow::Result<(Self, Option<String>)> {
        places.debugfs.may_write(SETTING).map_err(|error| refused(&error))?;
        let _turn = places.turn().with_context(|| {
            format!(
                "--exact-touch can't remember the setting in {}",
                places.folder.display()
            )
        })?;
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
        Ok((begun, left.and_then(told)))
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

    /// How the log and the profile tell of it.
    pub fn status(&self) -> HookStatus {
        HookStatus {
            noun: "fault".to_owned(),
            hook: format!("{EXACT_TOUCH} ({SETTING} {}, was {})", page_size(), self.before),
            refused: None,
            remedy: None,
        }
    }

    /// Puts the setting back if nobody else wants it changed; a second time does nothing.
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
                "{SETTING} was {} and could not be put back; `sudo ngmi doctor` tries again",
                self.before
            )
        })
    }
}

impl Drop for ExactTouch {
    fn drop(&mut self) {
        // Whoever can tell the person has called it before.
        let _ = self.end();
    }
}

/// Puts the setting back if a recorder that is no more had left it changed, and says so. Costs one look at a folder otherwise.
///
/// # Errors
/// When it was left, and could not be put back.
pub fn recover() -> anyhow::Result<Option<String>> {
    let folder = PathBuf::from(FOLDER);
    if !nix::unistd::geteuid().is_root() || !folder.join(REMEMBERED).exists() {
        return Ok(None);
    }
    let debugfs = Debugfs::open().context("the kernel's debug file system can't be mounted")?;
    Places { debugfs, folder }.recover()
}

/// Whether `--exact-touch` would work, for `ngmi doctor`; and what a killed recorder had left and is put back now.
pub fn rows() -> Vec<HookStatus> {
    let mut rows = Vec::new();
    match recover() {
        Ok(None) => {}
        Ok(Some(told)) => rows.push(doctor::row("fault", &told, None, "")),
        Err(error) => rows.push(doctor::row(
            "fault",
            "what a recorder that was killed had left",
            Some(format!("{error:#}")),
            &format!("`echo 65536 | sudo tee /sys/kernel/debug/{SETTING}` (the kernel's default) sets it by hand"),
        )),
    }
    let asked = Debugfs::open().and_then(|debugfs| debugfs.may_write(SETTING));
    let refused = asked.err().map(|error| why(&error));
    rows.push(doctor::row(
        "fault",
        "--exact-touch (fault_around_bytes)",
        refused,
        "none is needed: it is an option",
    ));
    rows
}

impl Places {
    /// Nobody else looks at the file or the setting until it is dropped.
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

    /// The file, if there is one.
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

    /// Writes down what the setting is.
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

    /// With nobody's lock on the file: sets what it says, unless somebody else has set it meanwhile, and removes it.
    fn put_back(&self, file: &File) -> io::Result<PutBack> {
        let done = match (remembered(file), self.debugfs.read(SETTING)?) {
            (Ok(before), now) if now == page_size() => {
                self.debugfs.write(SETTING, before)?;
                PutBack::Done(before)
            }
            // It was killed before it changed anything, the file is of an earlier boot, or a person has set it by hand.
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
        Ok(told(put_back.with_context(|| {
            format!("a recorder that was killed had left {SETTING} changed")
        })?))
    }
}

fn told(put_back: PutBack) -> Option<String> {
    match put_back {
        PutBack::Done(before) => Some(format!(
            "{SETTING} put back to {before}: a recorder that was killed had left it at {}",
            page_size()
        )),
        PutBack::Changed => None,
    }
}

/// Whether some recorder wants the setting changed. If not, the file is locked for us alone until it is closed or locked otherwise.
fn is_held(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// What the setting was, if that was since the machine was started.
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
            format!("{FOLDER}/{REMEMBERED} is of an earlier boot: remove it"),
        )
    })
}

/// What others could have written is not believed.
fn only_ours(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if metadata.uid() != nix::unistd::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other("others may write there: remove it"));
    }
    Ok(())
}

fn refused(error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("--exact-touch can't be had: {}; {ALTERNATIVE}", why(error))
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
#[path = "exact_touch_tests.rs"]
mod tests;
