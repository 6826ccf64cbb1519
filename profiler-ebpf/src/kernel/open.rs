//! Open files: what a descriptor refers to, and its name.

use profiler_common::stack::mix;
use profiler_common::switch::OpenFile;

use super::Task;
use crate::maps::config;
use crate::read::probe;

/// `S_IFMT`, and the file types whose names are worth recording.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const CHARACTER: u32 = 0o020_000;
const BLOCK: u32 = 0o060_000;
const REGULAR: u32 = 0o100_000;
const FIFO: u32 = 0o010_000;
/// `PIPEFS_MAGIC` of include/uapi/linux/magic.h: pipes without a name.
const PIPEFS: u32 = 0x5049_5045;

/// Address of a `struct inode`.
#[derive(Clone, Copy)]
pub struct Inode(u64);

/// Address of a `struct dentry`.
#[derive(Clone, Copy)]
pub struct Dentry(u64);

impl Task {
    /// What a descriptor of the task refers to: its inode, and its name.
    #[inline(always)]
    pub fn open_file(self, descriptor: u64) -> Option<(Inode, Dentry)> {
        let files: u64 = probe(self.address(), config!(task_files))?;
        let table: u64 = probe(files, config!(files_fdt))?;
        let count: u32 = probe(table, config!(fdtable_max_fds))?;
        if descriptor >= u64::from(count) {
            return None;
        }
        let array: u64 = probe(table, config!(fdtable_fd))?;
        let file: u64 = probe(array.wrapping_add(descriptor.wrapping_mul(8)), 0)?;
        if file == 0 {
            return None;
        }
        Some((Inode(probe(file, config!(file_inode))?), Dentry::of_file(file)))
    }
}

impl Inode {
    /// Bytes of the file.
    #[inline(always)]
    pub fn size(self) -> Option<u64> {
        probe(self.0, config!(inode_size))
    }

    #[inline(always)]
    pub fn at(address: u64) -> Option<Self> {
        (address != 0).then_some(Self(address))
    }

    /// The file's identity.
    #[inline(always)]
    pub fn describe(self) -> Option<OpenFile> {
        let superblock: u64 = probe(self.0, config!(inode_sb))?;
        Some(OpenFile {
            inode: probe(self.0, config!(inode_ino))?,
            device: probe(superblock, config!(sb_dev))?,
            generation: probe(self.0, config!(inode_generation)).unwrap_or(0),
            mode: u32::from(probe::<u16>(self.0, config!(inode_mode)).unwrap_or(0)),
            magic: probe::<u64>(superblock, config!(sb_magic)).unwrap_or(0) as u32,
            name: 0,
        })
    }

    /// One of its names: a file with several links has several, and the inode does not show which one is open.
    #[inline(always)]
    pub fn name(self) -> Option<Dentry> {
        let alias = config!(dentry_alias);
        let first: u64 = probe(self.0, config!(inode_dentries))?;
        (first != 0).then(|| Dentry(first.wrapping_sub(u64::from(alias))))
    }
}

impl Dentry {
    /// No name, in one word that is always written: the verifier rejects what an `Option` leaves undefined where paths join.
    pub const NONE: Self = Self(0);

    #[inline(always)]
    pub fn at(address: u64) -> Self {
        Self(address)
    }

    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0
    }

    /// The name as an `Option`.
    #[inline(always)]
    pub fn known(self) -> Option<Self> {
        (self.0 != 0).then_some(self)
    }

    /// The name of a `struct file`.
    #[inline(always)]
    pub fn of_file(file: u64) -> Self {
        Self(probe(file, config!(file_dentry)).unwrap_or(0))
    }

    /// The directory that contains it; `None`: it is the root of its file system.
    #[inline(always)]
    pub fn parent(self) -> Option<Self> {
        let parent: u64 = probe(self.0, config!(dentry_parent))?;
        (parent != 0 && parent != self.0).then_some(Self(parent))
    }

    /// A number for its path, which changes when the file or a directory above it is renamed. 0: unknown.
    #[inline(always)]
    pub fn path_key(self) -> u64 {
        path_key(self.0)
    }

    /// Address of its last component, in kernel memory.
    #[inline(always)]
    pub fn last_name(self) -> Option<u64> {
        probe(self.0, config!(dentry_name))
    }
}

/// How many directories of a path are read at most.
pub const DEPTH: u32 = 24;

/// [`Dentry::path_key`] of a `struct dentry`. The name's hash and its directory's address identify each name without reading it.
///
/// Exported, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn path_key(dentry: u64) -> u64 {
    let (mut key, mut entry) = (0, dentry);
    for _ in 0..DEPTH {
        let Some([parent, hash]) = parent_and_hash(entry) else {
            break;
        };
        if parent == 0 || parent == entry {
            break;
        }
        key = mix(key ^ parent, hash);
        entry = parent;
    }
    key
}

/// Reads both at once where they are adjacent (include/linux/dcache.h): each read takes as long as a short name.
#[inline(always)]
fn parent_and_hash(entry: u64) -> Option<[u64; 2]> {
    let (parent, hash) = (config!(dentry_parent), config!(dentry_hash));
    if hash == parent.wrapping_add(8) {
        return probe(entry, parent);
    }
    Some([probe(entry, parent)?, probe(entry, hash)?])
}

/// Whether it is in a file system, rather than a pipe, a socket or the like.
#[inline(always)]
pub fn has_name(file: &OpenFile) -> bool {
    match file.mode & TYPE {
        DIRECTORY | CHARACTER | BLOCK | REGULAR => true,
        FIFO => file.magic != PIPEFS,
        _ => false,
    }
}

/// Whether it is a block device.
#[inline(always)]
pub fn is_block_device(file: &OpenFile) -> bool {
    file.mode & TYPE == BLOCK
}
