//! Unwind tables of files, as sealed memory that the privileged helper can map: compiled once, then read from a cache
//! on disk.
//!
//! A cached table is named by the hash of its source, since any file can claim a build id, and has a second name by
//! the state of the file ([`Stamp`]). A table that is damaged, of another version, or that another user could have
//! written is compiled again. The cache is best effort: without it everything works, but more slowly.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Read, Seek as _, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::Uid;
use symbols::elf::{ElfError, ElfFile};
use symbols::home::cache_folder_of;

use super::identity::Environment;
use super::stamp::Stamp;
use crate::hex::hex;
use crate::table::{Digest, TableView, VERSION};
use crate::unwind::table::{Input, TableError};

/// Bytes of all cached tables, at most: those of thirty libraries as large as libxul.so.
const CACHE_LIMIT: u64 = 512 << 20;
/// Bytes added before the cache is scanned again, as a fraction of the limit: a browser's first start adds a hundred
/// tables.
const UNTIDY: u64 = 16;
/// Size in bytes of the largest cached table that is read.
const FILE_LIMIT: u64 = 160 << 20;
/// Names that a table may have.
const NAMES_LIMIT: usize = 256;
/// The sticky bit: in a folder that all may write to, each user removes and renames only their own files.
const STICKY: u32 = 0o1000;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// None can be compiled from the file.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The file was truncated while the table was compiled.
    #[error(transparent)]
    File(#[from] ElfError),
    /// There is no memory for it.
    #[error("no memory for its unwind table: {0}")]
    Memory(#[from] io::Error),
}

/// A table in memory that can no longer change.
#[derive(Debug)]
pub struct TableFile {
    /// A memory file with every seal: [`TableView::from_bytes`] parses its content.
    pub memory: File,
    /// Its size in bytes.
    pub size: u64,
    /// It came from the cache.
    pub is_cached: bool,
}

/// Compiles tables.
#[derive(Debug)]
pub struct TableCache {
    /// The cache's folder.
    folder: Option<PathBuf>,
    limit: u64,
    /// Bytes added since the cache was scanned; before the first scan, more than any limit.
    stored: AtomicU64,
}

impl TableCache {
    /// With a cache in `folder`, which is created if possible; `None`: without a cache.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder: folder.filter(|folder| is_ours(folder)),
            limit: CACHE_LIMIT,
            stored: AtomicU64::new(u64::MAX / 2),
        }
    }

    /// `ngmi/tables` in the user's `XDG_CACHE_HOME`, or `.cache` in their home; `None`: that belongs to another user.
    pub fn default_folder(environment: &Environment) -> Option<PathBuf> {
        let cache = cache_folder_of(|name| environment.get(std::ffi::OsStr::new(name)).cloned())?;
        Some(cache.join("ngmi").join("tables"))
    }

    /// The table of `elf`, found by `stamp` without reading the file's contents.
    ///
    /// # Errors
    /// When it has no table, or there is no memory.
    pub fn of(&self, elf: &ElfFile, stamp: Option<&Stamp>) -> Result<TableFile, TablesError> {
        let stamped = stamp.and_then(|stamp| self.path(stamp.name()));
        if let Some(bytes) = stamped.as_deref().and_then(|path| cached(path, None)) {
            return table_file(&bytes, true);
        }
        let input = Input::of(elf)?;
        let path = self.path(&hex(&input.digest));
        let known = path.as_deref().and_then(|path| cached(path, Some(&input.digest)));
        let is_cached = known.is_some();
        let table = if let Some(bytes) = known {
            table_file(&bytes, true)?
        } else {
            let table = input.compile()?;
            TableFile {
                memory: sealed(|memory| table.write(memory))?,
                size: table.serialized_size() as u64,
                is_cached,
            }
        };
        // A table of wrong contents would look like any other, and stay in the cache.
        if elf.was_cut() {
            return Err(ElfError::Cut.into());
        }
        if let (Some(folder), Some(path)) = (&self.folder, &path) {
            // A full disk only slows down the next recording.
            let _ = if is_cached {
                Ok(())
            } else {
                store(folder, path, &table.memory).and_then(|()| self.tidy(folder, table.size))
            };
            if let Some(stamped) = &stamped {
                // An existing entry is not to be trusted.
                let _ = fs::remove_file(stamped);
                let _ = fs::hard_link(path, stamped);
            }
        }
        Ok(table)
    }

    /// Notes that `size` more bytes are in the folder.
    fn tidy(&self, folder: &Path, size: u64) -> io::Result<()> {
        if self.stored.fetch_add(size, Ordering::Relaxed) + size > self.limit / UNTIDY {
            self.stored.store(0, Ordering::Relaxed);
            tidy(folder, self.limit)?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{name}.{VERSION}")))
    }
}

fn table_file(bytes: &[u8], is_cached: bool) -> Result<TableFile, TablesError> {
    Ok(TableFile {
        memory: sealed(|memory| memory.write_all(bytes))?,
        size: bytes.len() as u64,
        is_cached,
    })
}

/// Whether the folder exists, and only we, its owner, can write to it or replace it.
fn is_ours(folder: &Path) -> bool {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let us = Uid::effective().as_raw();
    let is_private = |meta: Metadata| meta.is_dir() && meta.uid() == us && meta.mode() & 0o022 == 0;
    let is_kept =
        |meta: Metadata| [0, us].contains(&meta.uid()) && (meta.mode() & 0o002 == 0 || meta.mode() & STICKY != 0);
    made.is_ok()
        && fs::symlink_metadata(folder).is_ok_and(is_private)
        && fs::canonicalize(folder).is_ok_and(|folder| {
            let mut above = folder.ancestors().skip(1);
            above.all(|folder| fs::symlink_metadata(folder).is_ok_and(is_kept))
        })
}

/// The bytes of a cached table, checked; `None` if there are none to trust. `source`: what it must have been compiled
/// from.
fn cached(path: &Path, source: Option<&Digest>) -> Option<Vec<u8>> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .ok()?;
    let meta = file.metadata().ok()?;
    let is_ours = meta.is_file() && meta.uid() == Uid::effective().as_raw() && meta.mode() & 0o022 == 0;
    if !is_ours || meta.len() > FILE_LIMIT {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).ok()?);
    (&file).take(FILE_LIMIT).read_to_end(&mut bytes).ok()?;
    let view = TableView::from_bytes(&bytes).ok()?;
    if source.is_some_and(|source| view.source != source) {
        return None;
    }
    // The least recently used ones are removed first; a read-only cache has no order.
    let _ = file.set_modified(SystemTime::now());
    Some(bytes)
}

/// Moves a copy of a table to its place in one step.
fn store(folder: &Path, path: &Path, mut memory: &File) -> io::Result<()> {
    let mut fresh = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    memory.rewind()?;
    io::copy(&mut memory, fresh.as_file_mut())?;
    fresh.persist(path)?;
    Ok(())
}

/// Removes the least recently used tables until `limit` bytes are left, and partial files of killed recordings.
fn tidy(folder: &Path, limit: u64) -> io::Result<()> {
    // A table and its stamps are names of one file: its bytes are freed with the last name.
    let mut files: BTreeMap<(SystemTime, u64), (u64, Vec<PathBuf>)> = BTreeMap::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        if let Some(used) = meta.modified().ok().filter(|_| meta.is_file()) {
            let (_, names) = files.entry((used, meta.ino())).or_insert((meta.len(), Vec::new()));
            names.push(entry.path());
        }
    }
    let mut total = files.values().fold(0u64, |sum, (size, _)| sum.saturating_add(*size));
    for (size, names) in files.into_values() {
        // A file that is changed and stamped again each time has many names for one table.
        if total <= limit && names.len() <= NAMES_LIMIT {
            continue;
        }
        names.iter().try_for_each(fs::remove_file)?;
        total = total.saturating_sub(size);
    }
    Ok(())
}

/// A memory file with the bytes that `fill` writes, which can no longer be changed, shrunk or enlarged.
fn sealed(fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut memory = File::from(memfd_create("ngmi-table", flags)?);
    fill(&mut memory)?;
    let seals = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&memory, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(memory)
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
