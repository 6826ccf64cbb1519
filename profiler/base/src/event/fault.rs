//! Captured page faults and page reads.

use profiler_common::fault::Waits;

use super::{At, FileId, Stacks};
use crate::addr::{Avma, FileOffset, Timestamp};
use crate::block_pages::BlockPages;

/// A page fault of a recorded thread; its [`At::time`] is its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fault<'a> {
    /// The thread, and the end of the fault.
    pub at: At,
    /// CPU number at its end.
    pub cpu: u16,
    /// The accessed address.
    pub address: Avma,
    /// Start time; `None`: unknown.
    pub start: Option<Timestamp>,
    /// `profiler_common::fault::FAULT_*`
    pub flags: u32,
    /// The mapping, if it was read while the fault was handled.
    pub vma: Option<FaultVma>,
    /// Time by what it waited for, in ns.
    pub waits: Waits,
    /// The attempts to handle it, valid with `FAULT_HANDLED`, and the processor's error code, valid
    /// with `FAULT_EXCEPTION`.
    pub attempts: Attempts,
    /// Pages of the mapping in the processor's page table at the end of the fault, in the aligned block of pages that
    /// contains the address. Without `vma`, those of other mappings may be among them. `None`: not read.
    pub mapped: Option<BlockPages>,
    /// Pages that were read into the page cache during the fault.
    pub read: u32,
    /// Signal that it raised; 0: none.
    pub signal: u32,
    /// Faults that it represents besides itself.
    pub others: OtherFaults,
    /// Stack of the thread.
    pub stacks: Stacks<'a>,
}

/// Faults of a thread that were counted, not recorded (`profiler_common::fault::FAULTS_AUTO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherFaults {
    /// Their number.
    pub count: u32,
    /// Sum of their latencies, in ns.
    pub time: u64,
}

/// How the kernel handled a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempts {
    /// `profiler_common::fault::error_code`
    pub error_code: u32,
    /// `profiler_common::fault::asked`
    pub asked: u32,
    /// `profiler_common::fault::returned`
    pub returned: u32,
    /// Number of attempts after the first.
    pub retries: u32,
}

/// The mapping of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultVma {
    /// `VM_*`
    pub flags: u64,
    /// The mapped file.
    pub file: Option<FaultFile>,
}

/// The location in a file that a fault accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultFile {
    /// The file.
    pub file: FileId,
    /// Offset of the page's start.
    pub offset: FileOffset,
    /// Magic number of the file system.
    pub magic: u32,
    /// How many more misses than hits the kernel counted: above 100, it does not read around.
    pub mmap_miss: u32,
}

/// Consecutive pages that a recorded thread read into the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PagesRead {
    /// The thread, and the time of the report.
    pub at: At,
    /// When the first page was added.
    pub since: Timestamp,
    /// The file.
    pub file: FileId,
    /// Index of the first page in the file.
    pub first: u64,
    /// Number of pages.
    pub count: u32,
    /// Whether it was within a page fault; otherwise, within a system call.
    pub in_fault: bool,
    /// Binary logarithm of the pages of each folio, [`MAX_ORDER`] at most; `None`: written by a version that did not record it.
    pub order: Option<u8>,
}

/// Pages that a system call mapped, at consecutive addresses; each of them was in the processor's page table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PagesPopulated {
    /// The thread, and when the page table was read.
    pub at: At,
    /// Address of the first page.
    pub start: Avma,
    /// Number of bytes.
    pub len: u64,
}

/// Largest folio of a read, as the binary logarithm of its pages: the kernel's limit is lower
/// (`MAX_PAGECACHE_ORDER`).
pub const MAX_ORDER: u8 = 15;
