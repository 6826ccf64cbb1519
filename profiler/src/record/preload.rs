//! Reads ahead what a list contains, and checks whether its files are still the listed ones.

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
    /// Its name is unknown.
    #[error("name unknown")]
    Nameless,
    /// It does not exist.
    #[error("deleted")]
    Gone,
    /// It differs from the recorded or listed file.
    #[error("changed since")]
    Changed,
    /// A folder, a device or a pipe; or its path contains a link.
    #[error("not a regular file, or reached through a link")]
    Special,
    /// Its file system keeps files in memory.
    #[error("on an in-memory file system")]
    Memory,
    /// Access is denied.
    #[error("not readable")]
    Unreadable,
}

/// Reads a list from a regular file.
///
/// # Errors
/// When it can't be read, is too large, or is invalid.
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
        open().with_context(|| format!("cannot read {shown}; name a list from `ngmi preload -o LIST`"))?;
    if !metadata.is_file() {
        bail!("{shown} is not a regular file; name a list from `ngmi preload -o LIST`");
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    if text.len() as u64 > MAX_BYTES {
        bail!("{shown} has more than {MAX_BYTES} bytes: not a list from `ngmi preload -o LIST`");
    }
    List::parse(&text).with_context(|| format!("cannot use {shown}"))
}

/// Opens a regular file by its own path: nothing else is ever opened, and no link is followed.
fn open_listed(path: &[u8]) -> Result<(File, Metadata), Skip> {
    let path = Path::new(OsStr::from_bytes(path));
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let no_links = ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let place = match openat2(AT_FDCWD, path, OpenHow::new().flags(flags).resolve(no_links)) {
        // Containers refuse it: then only the last part of the path is checked for a link.
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

/// Opens a file of a list, if it is still the listed one.
///
/// # Errors
/// With the reason why it is not read.
pub fn open_unchanged(listed: &Listed) -> Result<File, Skip> {
    let (file, metadata) = open_listed(&listed.path)?;
    if metadata.len() == listed.size && changed(&metadata) == listed.changed {
        return Ok(file);
    }
    // The same package, reinstalled.
    let is_same = metadata.len() == listed.size && !listed.build_id.is_empty() && build_id(&file) == listed.build_id;
    if is_same { Ok(file) } else { Err(Skip::Changed) }
}

fn changed(metadata: &Metadata) -> (i64, u32) {
    (metadata.mtime(), u32::try_from(metadata.mtime_nsec()).unwrap_or(0))
}

/// The build id; empty if the file has none, or is not an ELF file.
fn build_id(file: &File) -> Vec<u8> {
    let elf = file.try_clone().map(ElfFile::open);
    elf.ok()
        .and_then(Result::ok)
        .map_or_else(Vec::new, |elf| elf.build_id().to_vec())
}
