//! What a page fault is once it is over: the fact that verbs, the profile and reports read.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{StackId, ThreadId};
use crate::addr::{Avma, FileOffset, PAGE, Timestamp};
use crate::event::FileId;

id!(
    /// Index into [`super::Tables::files`].
    MappedFileId
);

/// A page fault.
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultFact {
    /// When it began; in tier 3, when it was over.
    pub start: Timestamp,
    /// From the exception to the completion; `None`: its start was not seen.
    pub latency: Option<Duration>,
    /// Whose.
    pub thread: ThreadId,
    /// Innermost frame of user and kernel stack together.
    pub stack: Option<StackId>,
    /// The address that was touched.
    pub address: Avma,
    /// How it was touched.
    pub access: Access,
    /// What kind of memory it brought.
    pub class: FaultClass,
    /// The page of the file that is mapped there; `None`: no file is.
    pub place: Option<FilePlace>,
    /// The kernel counts it as major.
    pub major: bool,
    /// The kernel touched the address, on behalf of a system call.
    pub in_kernel: bool,
    /// The memory is another process's.
    pub remote: bool,
    /// Why it failed; failed faults are in no count of the kernel's.
    pub failed: Option<Failure>,
    /// What it waited for, as far as its tier can tell.
    pub waits: FaultWaits,
    /// Attempts after the first; `None`: the tier can't tell.
    pub retries: Option<u32>,
    /// Pages that fault-around mapped beside, as far as they were in memory; `None`: none, or the kernel does not tell.
    pub around: Option<PageRange>,
    /// Pages that were read into the page cache meanwhile.
    pub pages_read: u32,
    /// The kernel had stopped reading around faults in this mapping, after too many misses.
    pub read_around_off: bool,
}

impl FaultFact {
    /// It was switched out for a disk, or for somebody else's read.
    pub fn waited(&self) -> bool {
        self.waits.disk.is_some_and(|time| !time.is_zero()) || self.waits.other_read.is_some_and(|time| !time.is_zero())
    }

    /// Bytes that came into memory: pages that were read into the page cache, and the page that was mapped unless it is
    /// one of those.
    pub fn bytes(&self) -> u64 {
        const HUGE_PAGE: u64 = 2 << 20;
        let read = u64::from(self.pages_read) * PAGE;
        match self.class {
            _ if self.failed.is_some() => read,
            FaultClass::FileRead | FaultClass::SharedDirty | FaultClass::Shmem | FaultClass::SwapIn => read.max(PAGE),
            FaultClass::Huge => read + HUGE_PAGE,
            _ => read + PAGE,
        }
    }

    /// Time that counts for the one who looks for slow faults: the latency, or nothing where it is not known.
    pub fn time(&self) -> Duration {
        self.latency.unwrap_or_default()
    }
}

/// How an address was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Read.
    Read,
    /// Written.
    Write,
    /// Executed.
    Execute,
    /// The tier can't tell.
    #[default]
    Unknown,
}

/// What kind of memory a fault brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultClass {
    /// A page of a file, read or executed.
    FileRead,
    /// A private copy of a file's page, written to: relocations, data.
    FileCow,
    /// A shared page of a file, written to.
    SharedDirty,
    /// The page of zeroes, for anonymous memory that is read.
    ZeroPage,
    /// New anonymous memory.
    Anonymous,
    /// Anonymous memory that was swapped out.
    SwapIn,
    /// A copy of an anonymous page that was shared, with a forked process or as the page of zeroes.
    Cow,
    /// A page of a tmpfs or of shared memory (memfd).
    Shmem,
    /// A huge page.
    Huge,
    /// Handled by a program through userfaultfd.
    Userfaultfd,
    /// Failed.
    Error,
    /// The tier can't tell.
    #[default]
    Unknown,
}

impl FaultClass {
    /// Every class, in the order of tables.
    pub const ALL: [Self; 12] = [
        Self::FileRead,
        Self::FileCow,
        Self::SharedDirty,
        Self::Shmem,
        Self::Anonymous,
        Self::ZeroPage,
        Self::Cow,
        Self::Huge,
        Self::SwapIn,
        Self::Userfaultfd,
        Self::Error,
        Self::Unknown,
    ];

    /// As tables, CSV and JSON name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FileRead => "file-read",
            Self::FileCow => "file-cow",
            Self::SharedDirty => "shared-dirty",
            Self::ZeroPage => "zero-page",
            Self::Anonymous => "anonymous",
            Self::SwapIn => "swap-in",
            Self::Cow => "cow",
            Self::Shmem => "shmem",
            Self::Huge => "huge",
            Self::Userfaultfd => "userfaultfd",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a fault failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Failure {
    /// The address must not be touched so.
    #[serde(rename = "SIGSEGV")]
    Segv,
    /// Beyond the file's end, or the file could not be read.
    #[serde(rename = "SIGBUS")]
    Bus,
    /// Out of memory.
    #[serde(rename = "OOM")]
    OutOfMemory,
    /// Otherwise.
    #[serde(rename = "other")]
    Other,
}

impl Failure {
    /// As tables, CSV and JSON name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Segv => "SIGSEGV",
            Self::Bus => "SIGBUS",
            Self::OutOfMemory => "OOM",
            Self::Other => "other",
        }
    }
}

/// Parts of a fault's latency; `None`: the tier can't tell. They do not overlap but for `reclaim`, which holds waits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FaultWaits {
    /// Before and between the attempts: for the lock of the address space.
    pub lock: Option<Duration>,
    /// For a read that it started itself.
    pub disk: Option<Duration>,
    /// For a read that somebody else had started.
    pub other_read: Option<Duration>,
    /// For something else.
    pub blocked: Option<Duration>,
    /// It could have run, but another thread did.
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
    /// Where the page starts in it.
    pub offset: FileOffset,
    /// The byte that was touched.
    pub byte: FileOffset,
}

/// Neighbouring pages of a file, counted from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PageRange {
    /// First page.
    pub first: u64,
    /// How many.
    pub count: u32,
}

/// Pages that a recorded thread brought into the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagesReadFact {
    /// When the first one came.
    pub time: Timestamp,
    /// Who read.
    pub thread: ThreadId,
    /// Which file.
    pub file: MappedFileId,
    /// Which pages.
    pub pages: PageRange,
    /// Within a page fault; else by a system call.
    pub in_fault: bool,
    /// Binary logarithm of the pages of each folio that it filled; `None`: not recorded.
    pub order: Option<u8>,
}

/// A file that faults or reads touched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MappedFile {
    /// Device and inode.
    pub id: FileId,
    /// Path as the process sees it; empty: nobody knows. Files of one path share it.
    pub path: Arc<str>,
    /// It was deleted or replaced while it was mapped.
    pub deleted: bool,
    /// Build id, empty if it has none.
    pub build_id: Vec<u8>,
    /// ELF sections by offset, for a library or program.
    pub sections: Vec<FileSection>,
    /// Symbols of the places that were touched, by offset.
    pub symbols: Vec<FileSymbol>,
}

impl MappedFile {
    /// The section that holds a byte of the file.
    pub fn section(&self, byte: FileOffset) -> Option<&str> {
        Some(&*self.sections.get(self.section_index(byte)?)?.name)
    }

    /// The symbol that holds a byte of the file.
    pub fn symbol(&self, byte: FileOffset) -> Option<&str> {
        Some(&*self.symbols.get(self.symbol_index(byte)?)?.name)
    }

    /// Where [`Self::section`] stands in `sections`.
    pub fn section_index(&self, byte: FileOffset) -> Option<usize> {
        let after = self.sections.partition_point(|section| section.offset <= byte.0);
        let index = after.checked_sub(1)?;
        let section = self.sections.get(index)?;
        (byte.0.checked_sub(section.offset)? < section.size).then_some(index)
    }

    /// Where [`Self::symbol`] stands in `symbols`.
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
    /// Address in the file's own terms.
    pub svma: u64,
}

/// A symbol at a place that was touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSymbol {
    /// Demangled.
    pub name: String,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes; at least up to the last place that was touched.
    pub size: u64,
}

/// A thread's faults by what became of them, beside the kernel's own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FaultAccount {
    /// Recorded.
    pub seen: u64,
    /// Lost: the ring was full.
    pub lost: u64,
    /// Not asked for (`--faults`).
    pub filtered: u64,
    /// Failed; the kernel does not count them.
    pub failed: u64,
    /// What the kernel had counted before the first one that was watched; `None`: none was.
    pub before: Option<u64>,
}

impl FaultAccount {
    /// That of two threads.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let before = self.before.zip(other.before);
        Self {
            seen: self.seen.saturating_add(other.seen),
            lost: self.lost.saturating_add(other.lost),
            filtered: self.filtered.saturating_add(other.filtered),
            failed: self.failed.saturating_add(other.failed),
            before: before.map(|(one, another)| one.saturating_add(another)),
        }
    }

    /// Faults that the kernel counted and the tier could not see, if it counted `kernel` in all. Negative: we saw more than the
    /// kernel counted, which must not be.
    pub fn not_visible(&self, kernel: u64) -> Option<i64> {
        let watched = i64::try_from(kernel.checked_sub(self.before?)?).ok()?;
        let known = self.seen.checked_add(self.lost)?.checked_add(self.filtered)?;
        watched.checked_sub(i64::try_from(known).ok()?)
    }
}

/// Faults of one thread that the profile's budget had no room for one by one: the shortest minor ones go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedFaults {
    /// Whose.
    pub thread: ThreadId,
    /// Which.
    pub class: FaultClass,
    /// The kernel counts them as major.
    pub major: bool,
    /// How many.
    pub faults: u64,
    /// Sum of [`FaultFact::time`], in ns.
    pub time: u64,
    /// Pages that were read into the page cache meanwhile.
    pub pages_read: u64,
}

/// Pages of one file that the profile's budget had no room for run by run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedReads {
    /// The file.
    pub file: MappedFileId,
    /// Within page faults; else by system calls.
    pub in_fault: bool,
    /// How many [`PagesReadFact`]s.
    pub runs: u64,
    /// Their pages.
    pub pages: u64,
}
