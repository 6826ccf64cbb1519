//! Drops files from the page cache, and checks what is left.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statfs::{FsType, HUGETLBFS_MAGIC, TMPFS_MAGIC, fstatfs};

use super::progress::Progress;
use super::{Entry, Why, holders};
use crate::capture::proc::page_cache::{Unknown, cached, is_resident, page_size};

/// `include/uapi/linux/magic.h`; nix has no name for it.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
/// Pages that are tried, at most, per file and in total.
const SAMPLES: u64 = 64;
const ALL_SAMPLES: u64 = 8192;
/// Delay for pending reads to end: a page can't be dropped before.
const READS: Duration = Duration::from_millis(100);
/// Delays before further attempts: for pages that another CPU has just touched, or that are still being written.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];

/// Drops the files, as far as the kernel allows, and notes for each what is left and why. Removed files are left out.
///
/// # Errors
/// When the user pressed Ctrl-C.
pub fn evict(entries: &mut Vec<Entry>, progress: &mut Progress<'_>) -> Result<()> {
    let samples = (ALL_SAMPLES / (entries.len() as u64).max(1)).clamp(4, SAMPLES);
    let mut gone = Vec::new();
    for entry in entries.iter_mut() {
        progress.advance(entry.len)?;
        if let Err(error) = first(entry, samples) {
            gone.push(error.kind() == io::ErrorKind::NotFound);
            entry.unreadable = true;
        } else {
            gone.push(false);
        }
    }
    let mut gone = gone.into_iter();
    entries.retain(|_| !gone.next().unwrap_or(false));
    if entries.iter().any(|entry| entry.is_sampled) {
        sleep(READS);
        entries.iter_mut().filter(|entry| entry.is_sampled).for_each(again);
    }
    if !entries.iter().any(Entry::is_left) {
        return Ok(());
    }
    let all_asked = holders::find(entries);
    for pause in PAUSES {
        progress.advance(0)?;
        after(pause, entries, |entry| once_more(entry, samples));
    }
    // Processes may have unmapped some since.
    for entry in entries.iter_mut().filter(|entry| entry.is_left()) {
        again(entry);
        if entry.why.is_none() && !all_asked {
            entry.why = Some(Why::Hidden);
        }
    }
    Ok(())
}

/// Drops again what the recorder itself may have touched, and what was left.
pub fn evict_again(entries: &mut [Entry]) {
    let touched = |entry: &&mut Entry| entry.starts || entry.is_left() || entry.is_sampled;
    entries.iter_mut().filter(touched).for_each(again);
    for pause in PAUSES {
        after(pause, entries, again);
    }
}

/// Tries again those that are left without a reason, if any.
fn after(pause: Duration, entries: &mut [Entry], retry: impl FnMut(&mut Entry)) {
    let is_unexplained = |entry: &Entry| entry.is_left() && entry.why.is_none();
    if entries.iter().any(is_unexplained) {
        sleep(pause);
        entries.iter_mut().filter(|entry| is_unexplained(entry)).for_each(retry);
    }
}

/// Opens a regular file for reading, without ever opening anything else.
///
/// # Errors
/// When it is not one, or may not be read.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    if !place.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", place.as_raw_fd()))
}

fn first(entry: &mut Entry, samples: u64) -> io::Result<()> {
    let file = open_regular(&entry.path)?;
    let state = cached(&file);
    entry.before = state.as_ref().ok().map(|cached| entry.within(cached.resident));
    if let Some(name) = memory(&file) {
        entry.why = Some(Why::Memory(name));
        entry.after = entry.before.or(Some(entry.len));
        return Ok(());
    }
    // A page that is not on disk yet can't be dropped. Read access suffices to have it written.
    if state.is_ok_and(|cached| cached.unwritten > 0) {
        file.sync_data()?;
    }
    drop_pages(&file)?;
    look(entry, &file);
    if entry.after.is_none() {
        entry.after = share_of(entry, sample(&file, samples));
        entry.is_sampled = entry.after.is_some();
        drop_pages(&file)?;
    }
    Ok(())
}

fn again(entry: &mut Entry) {
    if matches!(entry.why, Some(Why::Memory(_))) || entry.unreadable {
        return;
    }
    // A file that no longer exists needs no page.
    let Ok(file) = open_regular(&entry.path) else { return };
    if drop_pages(&file).is_ok() {
        look(entry, &file);
    }
}

/// As [`again`], and checks a sample of pages where the kernel does not report the state.
fn once_more(entry: &mut Entry, samples: u64) {
    again(entry);
    if let Some(file) = open_regular(&entry.path).ok().filter(|_| entry.is_sampled) {
        entry.after = share_of(entry, sample(&file, samples)).or(entry.after);
        sleep(READS);
        again(entry);
    }
}

/// The bytes of a share of a file.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A share is between 0 and 1, and a file below 2^63 bytes.
pub fn share_of(entry: &Entry, share: Option<f64>) -> Option<u64> {
    share.map(|share| (entry.len as f64 * share).round() as u64)
}

fn drop_pages(file: &File) -> io::Result<()> {
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).map_err(io::Error::from)
}

/// Asks the kernel; where it does not report the state, the known one stays.
fn look(entry: &mut Entry, file: &File) {
    match cached(file) {
        Ok(cached) => {
            entry.after = Some(entry.within(cached.resident));
            if cached.unwritten > 0 && entry.why.is_none() {
                entry.why = Some(Why::Unwritten);
            } else if cached.unwritten == 0 && entry.why == Some(Why::Unwritten) {
                entry.why = None;
            }
        }
        Err(Unknown::NotReported | Unknown::Failed(_)) => {}
    }
}

/// The name of the file system if it keeps its files only in memory.
pub fn memory(file: &File) -> Option<&'static str> {
    let kind = fstatfs(file).ok()?.filesystem_type();
    let known = [
        (TMPFS_MAGIC, "tmpfs"),
        (RAMFS_MAGIC, "ramfs"),
        (HUGETLBFS_MAGIC, "hugetlbfs"),
    ];
    known
        .into_iter()
        .find(|(magic, _)| *magic == kind)
        .map(|(_, name)| name)
}

/// The share of a file that is in memory, estimated from single pages spread over it. The kernel starts to read each
/// missing one: the file has to be dropped once more.
pub fn sample(file: &File, samples: u64) -> Option<f64> {
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM).ok()?;
    let page = page_size();
    let pages = file.metadata().ok()?.len().div_ceil(page);
    let tried = samples.min(pages);
    let mut found = 0u64;
    for number in 0..tried {
        // One in the middle of each of equal parts.
        let at = (u128::from(number) * 2 + 1) * u128::from(pages) / (u128::from(tried) * 2);
        found += u64::from(is_resident(file, u64::try_from(at).ok()?.checked_mul(page)?).ok()?);
    }
    (tried > 0).then(|| found as f64 / tried as f64)
}
