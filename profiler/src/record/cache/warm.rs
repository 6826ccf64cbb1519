//! Reads files into the page cache, and checks whether they stayed there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use anyhow::Result;
use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use super::evict::{memory, open_regular, sample, share_of};
use super::progress::Progress;
use super::system::Memory;
use super::{Entry, Why};
use crate::capture::proc::page_cache::cached;

/// Bytes read at once.
const BLOCK: usize = 1 << 20;
/// Pages that are tried of a file with a state that the kernel does not report.
const SAMPLES: u64 = 64;
/// Parts of a sparse file that are read, at most.
const PARTS_LIMIT: usize = 1 << 16;

/// Reads all files, as far as there is memory, and notes what is in memory of each. Removed files are left out.
///
/// # Errors
/// When the user pressed Ctrl-C.
pub fn warm(entries: &mut Vec<Entry>, progress: &mut Progress<'_>) -> Result<()> {
    // Reading more would push out what was read before.
    let available = Memory::now().available;
    let mut room = if available == 0 {
        u64::MAX
    } else {
        available - available / 16
    };
    let mut buffer = vec![0; BLOCK];
    let mut gone = Vec::new();
    for entry in entries.iter_mut() {
        let read = open_regular(&entry.path).map(|file| one(entry, &file, &mut room, &mut buffer, progress));
        gone.push(match read {
            Ok(read) => {
                read?;
                false
            }
            Err(error) => {
                entry.unreadable = true;
                error.kind() == io::ErrorKind::NotFound
            }
        });
    }
    let mut gone = gone.into_iter();
    entries.retain(|_| !gone.next().unwrap_or(false));
    for entry in entries.iter_mut().filter(|entry| !entry.unreadable) {
        progress.advance(0)?;
        look(entry);
    }
    // The kernel first reclaims pages that were read once: reading one file may push out another, so the most certain
    // ones are last.
    let is_missing = |entry: &&mut Entry| entry.why.is_none() && entry.after.is_some_and(|after| after < entry.len);
    for entry in entries.iter_mut().rev().filter(is_missing) {
        let Ok(file) = open_regular(&entry.path) else { continue };
        for part in parts(&file, file.metadata().map_or(0, |metadata| metadata.len())) {
            read(entry, &file, part, &mut buffer, progress)?;
        }
        look(entry);
        if entry.why.is_none() && entry.after.is_some_and(|after| after < entry.len) {
            entry.why = Some(Why::Reclaimed);
        }
    }
    Ok(())
}

fn one(entry: &mut Entry, file: &File, room: &mut u64, buffer: &mut [u8], progress: &mut Progress<'_>) -> Result<()> {
    let whole = entry.len;
    let parts = parts(file, entry.len);
    entry.len = parts.iter().map(|(start, end)| end - start).sum();
    entry.before = cached(file).ok().map(|cached| entry.within(cached.resident));
    if memory(file).is_some() {
        return progress.advance(whole);
    }
    let missing = entry.len - entry.before.unwrap_or(0);
    if missing > *room {
        entry.why = Some(Why::NoRoom);
        return progress.advance(whole);
    }
    *room -= missing;
    // Pages already in memory are read too: that makes them recently used, and they stay.
    for part in parts {
        read(entry, file, part, buffer, progress)?;
    }
    progress.advance(whole.saturating_sub(entry.len))
}

/// Reads from `start` to `end`, in bytes.
fn read(
    entry: &mut Entry,
    file: &File,
    (start, end): (u64, u64),
    buffer: &mut [u8],
    progress: &mut Progress<'_>,
) -> Result<()> {
    let mut at = start;
    while at < end {
        let size = usize::try_from(end - at).unwrap_or(BLOCK).min(BLOCK);
        match file.read_at(&mut buffer[..size], at) {
            Ok(0) => break, // it became shorter
            Ok(read) => {
                at += read as u64;
                progress.advance(read as u64)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => progress.advance(0)?,
            Err(error) => {
                entry.why = Some(Why::Failed(error.to_string()));
                break;
            }
        }
    }
    Ok(())
}

/// The ranges in bytes where the file has data: reading the holes of a sparse file would fill memory with zeros.
fn parts(file: &File, len: u64) -> Vec<(u64, u64)> {
    let mut parts = Vec::new();
    let mut at = 0u64;
    let seek = |offset: u64, whence| -> Result<u64, Errno> {
        let offset = i64::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        u64::try_from(lseek(file, offset, whence)?).map_err(|_| Errno::EOVERFLOW)
    };
    while at < len && parts.len() < PARTS_LIMIT {
        let start = match seek(at, Whence::SeekData) {
            Ok(start) => start,
            Err(Errno::ENXIO) => break,      // a hole up to the end
            Err(_) => return vec![(0, len)], // the file system does not support holes
        };
        let end = seek(start, Whence::SeekHole).unwrap_or(len).min(len);
        if end <= start || start < at {
            break;
        }
        parts.push((start, end));
        at = end;
    }
    parts
}

fn look(entry: &mut Entry) {
    let Ok(file) = open_regular(&entry.path) else { return };
    if let Ok(cached) = cached(&file) {
        entry.after = Some(entry.within(cached.resident));
    } else {
        entry.after = share_of(entry, sample(&file, SAMPLES));
        entry.is_sampled = entry.after.is_some();
    }
    if memory(&file).is_some() {
        entry.after = Some(entry.len);
    }
}
