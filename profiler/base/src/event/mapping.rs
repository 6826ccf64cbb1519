//! What a process mapped.

use super::{At, FileId};
use crate::addr::{Avma, FileOffset};

/// `PROT_*` bits of [`Mapping::protection`].
pub const PROT_EXEC: u32 = 4;
/// `MAP_*` bits of [`Mapping::flags`].
pub const MAP_SHARED: u32 = 1;
/// Large pages of x86-64, and of arm64 with small ones of 4 KiB.
const LARGE: u64 = 2 << 20;

/// A mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    /// The process, and the time of the mapping.
    pub at: At,
    /// First address.
    pub start: Avma,
    /// Length in bytes.
    pub len: u64,
    /// Offset of the first byte in the file.
    pub offset: FileOffset,
    /// The file; inode 0 for anonymous memory.
    pub file: FileId,
    /// `PROT_*`
    pub protection: u32,
    /// `MAP_*`
    pub flags: u32,
    /// Path or pseudo-name as printed by the kernel (`[vdso]`, `//anon`, `/memfd:x (deleted)`).
    pub path: Vec<u8>,
    /// Build id, if it was available immediately (`PROCMAP_QUERY`).
    pub build_id: Vec<u8>,
}

impl Mapping {
    /// Whether it may be code that a program moved to large pages: private, anonymous, executable, and
    /// consisting of large pages.
    pub fn may_be_copy(&self) -> bool {
        let is_anonymous = self.file.inode == 0 && self.path != b"[vdso]";
        let is_code = self.protection & PROT_EXEC != 0 && self.flags & MAP_SHARED == 0;
        let is_large = self.len > 0 && self.start.0.is_multiple_of(LARGE) && self.len.is_multiple_of(LARGE);
        is_anonymous && is_code && is_large
    }
}
