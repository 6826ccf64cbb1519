//! A finished page fault, as subcommands, the profile and reports read it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{StackId, ThreadId};
use base::addr::{Avma, FileOffset, PAGE, Timestamp};
use base::event::FileId;
use base::id;
use base::named;

pub use super::mapped::Mapped;

id!(
    /// Index into [`super::Tables::files`].
    MappedFileId
);

/// A page fault.
#[allow(clippy::struct_excessive_bools)] // each is a separate fact
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultFact {
    /// When it began; in tier 3, when it ended.
    pub start: Timestamp,
    /// From the exception to the completion; `None` if its start was not seen.
    pub latency: Option<Duration>,
    /// The faulting thread.
    pub thread: ThreadId,
    /// Innermost frame of user and kernel stack together.
    pub stack: Option<StackId>,
    /// The address that was touched.
    pub address: Avma,
    /// How it was touched.
    pub access: Access,
    /// The kind of memory that it mapped.
    pub class: FaultClass,
    /// The page of the file that is mapped there; `None` for memory without a file.
    pub place: Option<FilePlace>,
    /// Whether the kernel counts it as major.
    pub major: bool,
    /// Whether the kernel touched the address on behalf of a system call.
    pub in_kernel: bool,
    /// Whether the memory belongs to another process.
    pub remote: bool,
    /// Why it failed; the kernel's counts omit failed faults.
    pub failed: Option<Failure>,
    /// What it waited for, as far as its tier can see.
    pub waits: FaultWaits,
    /// Attempts after the first; `None` if the tier can't see them.
    pub retries: Option<u32>,
    /// The pages of the file that it mapped: those in the page table at its end that were not there at the end of an
    /// earlier fault. `None`: unknown, or memory without a file.
    pub mapped: Option<Mapped>,
    /// Pages read into the page cache during the fault.
    pub pages_read: u32,
    /// Whether the kernel had stopped reading around faults in this mapping, after too many misses.
    pub read_around_off: bool,
    /// The faults that it represents besides itself.
    pub others: OtherFaults,
}

/// Faults of the same thread and class that were counted, not recorded: `--faults auto` records one for several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherFaults {
    /// Their number.
    pub count: u32,
    /// The sum of their latencies.
    pub time: Duration,
}

impl FaultFact {
    /// When it ended; if its latency is unknown, `start` is that time.
    pub fn end(&self) -> Timestamp {
        let latency = self.latency.unwrap_or_default().as_nanos();
        Timestamp(self.start.0.saturating_add(u64::try_from(latency).unwrap_or(u64::MAX)))
    }

    /// Whether it waited for a disk, or for another thread's read.
    pub fn waited(&self) -> bool {
        self.waits.disk.is_some_and(|time| !time.is_zero()) || self.waits.other_read.is_some_and(|time| !time.is_zero())
    }

    /// Bytes brought into memory: pages read into the page cache, and the page that was mapped unless it is
    /// one of those. `page`: the machine's page size ([`crate::Recording::page`]).
    pub fn bytes(&self, page: u64) -> u64 {
        // A table of entries of 8 bytes, each for a page: 2 MiB with pages of 4 KiB.
        let huge_page = page / 8 * page;
        let read = u64::from(self.pages_read) * PAGE;
        match self.class {
            _ if self.failed.is_some() => read,
            FaultClass::FileRead | FaultClass::SharedDirty | FaultClass::Shmem | FaultClass::SwapIn => read.max(page),
            FaultClass::Huge => read + huge_page,
            _ => read + page,
        }
    }

    /// The adjacent pages of the file that it mapped, its own among them. `None`: unknown, or only its own.
    pub fn around(&self) -> Option<PageRange> {
        let (mapped, place) = (self.mapped?, self.place?);
        mapped.around(place.offset.0 / PAGE).filter(|range| range.count > 1)
    }

    /// Time for ranking slow faults: the latency, or zero if it is unknown.
    pub fn time(&self) -> Duration {
        self.latency.unwrap_or_default()
    }

    /// Number of faults that it represents, itself among them.
    pub fn count(&self) -> u64 {
        u64::from(self.others.count) + 1
    }

    /// The known latencies of all faults that it represents.
    pub fn total_time(&self) -> Duration {
        self.time().saturating_add(self.others.time)
    }

    /// The bytes of all faults that it represents; see [`FaultFact::bytes`].
    pub fn total_bytes(&self, page: u64) -> u64 {
        self.bytes(page).saturating_add(u64::from(self.others.count) * page)
    }
}

named! {
    /// How an address was touched.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Access {
        /// Read.
        Read => "read",
        /// Written.
        Write => "write",
        /// Executed.
        Execute => "execute",
        /// Unknown to the tier.
        #[default]
        Unknown => "unknown",
    }
}

named! {
    in order [
        FileRead, FileCow, SharedDirty, Shmem, Anonymous, ZeroPage, Cow, Huge, SwapIn, Userfaultfd, Error,
        Unknown
    ];
    /// The kind of memory that a fault mapped.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum FaultClass {
        /// A page of a file, read or executed.
        FileRead => "file-read",
        /// A private copy of a written file page: relocations, data.
        FileCow => "file-cow",
        /// A written page of a shared file mapping.
        SharedDirty => "shared-dirty",
        /// The page of zeroes, for anonymous memory that is read.
        ZeroPage => "zero-page",
        /// New anonymous memory.
        Anonymous => "anonymous",
        /// Anonymous memory that had been swapped out.
        SwapIn => "swap-in",
        /// A copy of an anonymous page that was shared with a forked process, or was the page of zeroes.
        Cow => "cow",
        /// A page of a tmpfs or of shared memory (memfd).
        Shmem => "shmem",
        /// A huge page.
        Huge => "huge",
        /// Handled by a program through userfaultfd.
        Userfaultfd => "userfaultfd",
        /// A failed fault.
        Error => "error",
        /// Unknown to the tier.
        #[default]
        Unknown => "unknown",
    }
}

named! {
    /// Why a fault failed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum Failure {
        /// The mapping does not allow this access.
        #[serde(rename = "SIGSEGV")]
        Segv => "SIGSEGV",
        /// Beyond the file's end, or the file could not be read.
        #[serde(rename = "SIGBUS")]
        Bus => "SIGBUS",
        /// Out of memory.
        #[serde(rename = "OOM")]
        OutOfMemory => "OOM",
        /// Another failure.
        #[serde(rename = "other")]
        Other => "other",
    }
}

/// Parts of a fault's latency; `None` if the tier can't see them. They do not overlap, except that `reclaim`
/// includes waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FaultWaits {
    /// Before and between the attempts: for the address space lock.
    pub lock: Option<Duration>,
    /// For a read that it started.
    pub disk: Option<Duration>,
    /// For a read that another thread had started.
    pub other_read: Option<Duration>,
    /// For something else.
    pub blocked: Option<Duration>,
    /// Runnable, while another thread ran.
    pub preempted: Option<Duration>,
    /// In direct reclaim or compaction.
    pub reclaim: Option<Duration>,
}

impl FaultWaits {
    /// Each part, in the order of the fields.
    pub const fn parts(&self) -> [Option<Duration>; 6] {
        [
            self.lock,
            self.disk,
            self.other_read,
            self.blocked,
            self.preempted,
            self.reclaim,
        ]
    }
}

/// A page of a mapped file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePlace {
    /// The file.
    pub file: MappedFileId,
    /// Start of the page in the file.
    pub offset: FileOffset,
    /// The byte that was touched.
    pub byte: FileOffset,
}

/// Adjacent pages of a file, counted from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PageRange {
    /// First page.
    pub first: u64,
    /// Number of pages.
    pub count: u32,
}

named! {
    /// How a thread brought pages of a file into memory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PagesBy {
        /// A system call read them into the page cache.
        Call => "a system call",
        /// A page fault read them into the page cache.
        Fault => "a page fault",
        /// A system call mapped them ahead of any access, wherever they were: `mmap`, `mlock`, `madvise`.
        Populate => "a system call that maps ahead",
    }
}

/// Pages that a recorded thread brought into the page cache, or mapped by a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagesReadFact {
    /// When the first page arrived, or all were seen to be mapped.
    pub time: Timestamp,
    /// The thread.
    pub thread: ThreadId,
    /// The file.
    pub file: MappedFileId,
    /// The pages.
    pub pages: PageRange,
    /// How.
    pub by: PagesBy,
    /// Binary logarithm of the pages of each folio that it filled; `None` if not recorded, or nothing was read.
    pub order: Option<u8>,
}

/// A file that faults or reads touched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MappedFile {
    /// Device and inode.
    pub id: FileId,
    /// Path as the process sees it; empty if unknown. Files with one path share the string.
    pub path: Arc<str>,
    /// Whether it was deleted or replaced while it was mapped.
    pub deleted: bool,
    /// Build id, empty if it has none.
    pub build_id: Vec<u8>,
    /// ELF sections by offset, for a library or program.
    pub sections: Vec<FileSection>,
    /// Symbols at the touched offsets, by offset.
    pub symbols: Vec<FileSymbol>,
    /// Variables that contain futexes, by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<FileVariable>,
}

impl MappedFile {
    /// Name of the section that contains a byte of the file.
    pub fn section(&self, byte: FileOffset) -> Option<&str> {
        Some(&*self.sections.get(self.section_index(byte)?)?.name)
    }

    /// Name of the symbol that contains a byte of the file.
    pub fn symbol(&self, byte: FileOffset) -> Option<&str> {
        Some(&*self.symbols.get(self.symbol_index(byte)?)?.name)
    }

    /// The variable at this distance from the start of the file's mappings.
    pub fn variable(&self, distance: u64) -> Option<&FileVariable> {
        let after = self.variables.partition_point(|variable| variable.start <= distance);
        let variable = self.variables.get(after.checked_sub(1)?)?;
        (distance - variable.start < variable.size).then_some(variable)
    }

    /// Index of [`Self::section`] in `sections`.
    pub fn section_index(&self, byte: FileOffset) -> Option<usize> {
        let after = self.sections.partition_point(|section| section.offset <= byte.0);
        let index = after.checked_sub(1)?;
        let section = self.sections.get(index)?;
        (byte.0.checked_sub(section.offset)? < section.size).then_some(index)
    }

    /// Index of [`Self::symbol`] in `symbols`.
    pub fn symbol_index(&self, byte: FileOffset) -> Option<usize> {
        let after = self.symbols.partition_point(|symbol| symbol.offset <= byte.0);
        let index = after.checked_sub(1)?;
        let symbol = self.symbols.get(index)?;
        (byte.0.checked_sub(symbol.offset)? < symbol.size).then_some(index)
    }
}

/// A section of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSection {
    /// `.text`, `.data.rel.ro`, ...
    pub name: String,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub size: u64,
    /// Address in the file's own address space.
    pub svma: u64,
}

/// A symbol at an offset that was touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSymbol {
    /// Demangled name.
    pub name: String,
    /// First byte in the file.
    pub offset: u64,
    /// Size in bytes; reaches at least the last touched offset.
    pub size: u64,
}

/// A variable that contains a futex: its memory may have no bytes in the file (`.bss`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVariable {
    /// Demangled name.
    pub name: String,
    /// Distance of its first byte from the start of the file's mappings.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests;
