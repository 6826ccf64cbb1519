//! Reading ahead what a list says, and telling whether its files are still those that it was made of.

pub mod ahead;
pub mod identify;

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use symbols::elf::ElfFile;

use super::cache::evict::memory;
use crate::report::preload::list::{List, Listed, MAX_BYTES};

/// Why a file is not read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Skip {
    /// Nobody knows its name.
    #[error("without a known name")]
    Nameless,
    /// It is not there.
    #[error("gone")]
    Gone,
    /// It is not the file that was recorded or listed.
    #[error("changed since")]
    Changed,
    /// A folder, a device, a pipe; or a link is on the way to it.
    #[error("no regular file, or behind a link")]
    Special,
    /// Its file system keeps files in memory.
    #[error("in memory by nature")]
    Memory,
    /// It may not be read.
    #[error("not readable")]
    Unreadable,
}

/// Reads a list from a regular file.
///
/// # Errors
/// When it can't be read, is too large, or says something wrong.
pub fn read_list(path: &Path) -> Result<List> {
    let shown = path.display();
    let open = || -> io::Result<(File, Metadata)> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        let metadata = file.metadata()?;
        Ok((file, metadata))
    };
    let (file, metadata) =
        open().with_context(|| format!("cannot read {shown}; name a list that `ngmi preload -o LIST` made"))?;
    if !metadata.is_file() {
        bail!("{shown} is no regular file; name a list that `ngmi preload -o LIST` made");
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    if text.len() as u64 > MAX_BYTES {
        bail!("{shown} has more than {MAX_BYTES} bytes: no list of ours");
    }
    List::parse(&text).with_context(|| format!("cannot use {shown}"))
}

/// Opens a regular file by its own path: nothing else is ever opened, and no link followed.
fn open_listed(path: &[u8]) -> Result<(File, Metadata), Skip> {
    let path = Path::new(OsStr::from_bytes(path));
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let no_links = ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let place = match openat2(AT_FDCWD, path, OpenHow::new().flags(flags).resolve(no_links)) {
        // Containers refuse it: then only the last part of the path is looked at.
        Err(Errno::ENOSYS | Errno::EPERM) => open(path, flags | OFlag::O_NOFOLLOW, Mode::empty()),
        answer => answer,
    };
    let place = File::from(place.map_err(why)?);
    if !place.metadata().map_err(|_| Skip::Unreadable)?.is_file() {
        return Err(Skip::Special);
    }
    let again = format!("/proc/self/fd/{}", place.as_raw_fd());
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(again);
    let file = file.map_err(|_| Skip::Unreadable)?;
    let metadata = file.metadata().map_err(|_| Skip::Unreadable)?;
    if memory(&file).is_some() {
        return Err(Skip::Memory);
    }
    Ok((file, metadata))
}

fn why(error: Errno) -> Skip {
    match error {
        Errno::ENOENT | Errno::ENOTDIR => Skip::Gone,
        Errno::ELOOP => Skip::Special,
        _ => Skip::Unreadable,
    }
}

/// Opens a file of a list, if it is still the one that the list is about.
///
/// # Errors
/// Why it is not read.
pub fn open_unchanged(listed: &Listed) -> Result<File, Skip> {
    let (file, metadata) = open_listed(&listed.path)?;
    if metadata.len() == listed.size && changed(&metadata) == listed.changed {
        return Ok(file);
    }
    // The same package, installed again.
    let is_same = metadata.len() == listed.size && !listed.build_id.is_empty() && build_id(&file) == listed.build_id;
    if is_same { Ok(file) } else { Err(Skip::Changed) }
}

fn changed(metadata: &Metadata) -> (i64, u32) {
    (metadata.mtime(), u32::try_from(metadata.mtime_nsec()).unwrap_or(0))
}

/// Empty if it has none, or is no ELF file.
fn build_id(file: &File) -> Vec<u8> {
    let elf = file.try_clone().map(ElfFile::open);
    elf.ok()
        .and_then(Result::ok)
        .map_or_else(Vec::new, |elf| elf.build_id().to_vec())
}
