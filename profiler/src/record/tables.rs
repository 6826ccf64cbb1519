//! Unwind tables of files as sealed memory that the privileged half can map: compiled once, then from a cache on disk.
//!
//! A cached table is known by the file's build id and the sizes of its sections; one that is damaged, of another version, or that somebody else could have
//! written is made again. The cache is best effort: without it everything works, but slower.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::Uid;
use symbols::elf::ElfFile;

use super::identity::Environment;
use crate::table::{TableView, VERSION};
use crate::unwind::table::{TableError, compile};

/// Bytes that all cached tables take at most: those of thirty libraries as large as libxul.so.
const CACHE_LIMIT: u64 = 512 << 20;
/// What is put into it before it is looked through again, as a part of the limit: a browser's first start makes a hundred tables.
const UNTIDY: u64 = 16;
/// Largest cached table that is read, in bytes.
const FILE_LIMIT: u64 = 160 << 20;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// None can be made of the file.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The system has no memory for it.
    #[error("no memory for its unwind table: {0}")]
    Memory(#[from] io::Error),
}

/// A table in memory that nobody can change any more.
#[derive(Debug)]
pub struct TableFile {
    /// A memory file with every seal: [`TableView::from_bytes`] reads what is in it.
    pub memory: File,
    /// Its bytes.
    pub size: u64,
    /// It was on disk.
    pub is_cached: bool,
}

/// Makes tables.
#[derive(Debug)]
pub struct Tables {
    /// Where they are cached.
    folder: Option<PathBuf>,
    limit: u64,
    /// Bytes that were put there since it was looked through; before the first time, more than any limit.
    stored: AtomicU64,
}

impl Tables {
    /// With a cache in `folder`, which is made if it can be; `None`: without one.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder: folder.filter(|folder| is_ours(folder)),
            limit: CACHE_LIMIT,
            stored: AtomicU64::new(u64::MAX / 2),
        }
    }

    /// `ngmi/tables` in the person's `XDG_CACHE_HOME`, or `.cache` in their home.
    pub fn default_folder(environment: &Environment) -> Option<PathBuf> {
        let absolute = |name: &str| {
            let path = PathBuf::from(environment.get(std::ffi::OsStr::new(name))?);
            path.is_absolute().then_some(path)
        };
        let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(cache.join("ngmi").join("tables"))
    }

    /// The table of `elf`. A file without a build id is compiled each time.
    ///
    /// # Errors
    /// When it has no table, or there is no memory.
    pub fn of(&self, elf: &ElfFile) -> Result<TableFile, TablesError> {
        let path = self.path(elf);
        if let Some(bytes) = path.as_deref().and_then(|path| cached(path, elf.build_id())) {
            return Ok(TableFile {
                memory: sealed(&bytes)?,
                size: bytes.len() as u64,
                is_cached: true,
            });
        }
        let bytes = compile(elf)?.to_bytes();
        if let (Some(folder), Some(path)) = (&self.folder, &path) {
            // A full disk costs the next recording some time, and nothing else.
            let _ = store(folder, path, &bytes).and_then(|()| self.tidy(folder, bytes.len() as u64));
        }
        Ok(TableFile {
            memory: sealed(&bytes)?,
            size: bytes.len() as u64,
            is_cached: false,
        })
    }

    /// `size` more bytes are in the folder.
    fn tidy(&self, folder: &Path, size: u64) -> io::Result<()> {
        if self.stored.fetch_add(size, Ordering::Relaxed) + size > self.limit / UNTIDY {
            self.stored.store(0, Ordering::Relaxed);
            tidy(folder, self.limit)?;
        }
        Ok(())
    }

    /// Tools that edit files keep the build id: how much there is to compile belongs to the name.
    fn path(&self, elf: &ElfFile) -> Option<PathBuf> {
        use std::fmt::Write as _;
        let build_id = elf.build_id();
        let folder = self.folder.as_ref().filter(|_| !build_id.is_empty())?;
        let mut name = String::new();
        for byte in build_id {
            write!(name, "{byte:02x}").ok()?;
        }
        let len = |section| elf.section(section).map_or(0, |section| section.bytes.len());
        let [eh_frame, debug_frame, text] = [".eh_frame", ".debug_frame", ".text"].map(len);
        Some(folder.join(format!("{name}-{eh_frame:x}-{debug_frame:x}-{text:x}.{VERSION}")))
    }
}

/// The folder is there, and only its owner, who we are, can write to it.
fn is_ours(folder: &Path) -> bool {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.is_ok()
        && fs::symlink_metadata(folder)
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == Uid::effective().as_raw() && meta.mode() & 0o022 == 0)
}

/// The bytes of a cached table, checked; `None` if there are none to trust.
fn cached(path: &Path, build_id: &[u8]) -> Option<Vec<u8>> {
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
    if view.build_id != build_id {
        return None;
    }
    // The least recently used ones go first; a cache that can't be written to has no order.
    let _ = file.set_modified(SystemTime::now());
    Some(bytes)
}

/// Puts a table in its place in one step.
fn store(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    fresh.write_all(bytes)?;
    fresh.persist(path)?;
    Ok(())
}

/// Removes what was not used for longest until `limit` bytes are left; also what killed recordings left half-written.
fn tidy(folder: &Path, limit: u64) -> io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(folder)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((meta.modified().ok()?, meta.len(), entry.path()))
        })
        .collect();
    files.sort_unstable();
    let mut total = files.iter().fold(0u64, |sum, (_, size, _)| sum.saturating_add(*size));
    for (_, size, path) in files {
        if total <= limit {
            break;
        }
        fs::remove_file(path)?;
        total = total.saturating_sub(size);
    }
    Ok(())
}

/// A memory file with these bytes that nobody can change, shrink or enlarge.
fn sealed(bytes: &[u8]) -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut memory = File::from(memfd_create("ngmi-table", flags)?);
    memory.write_all(bytes)?;
    let seals = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&memory, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(memory)
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
