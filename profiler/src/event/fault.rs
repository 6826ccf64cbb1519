//! A page fault as it was captured, and pages that were read.

use profiler_common::fault::Waits;

use super::{At, FileId, Stacks};
use crate::addr::{Avma, FileOffset, Timestamp};

/// A page fault of a recorded thread; its [`At::time`] is when it was over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fault<'a> {
    /// Who, and when it was over.
    pub at: At,
    /// CPU number at its end.
    pub cpu: u16,
    /// The address that was touched.
    pub address: Avma,
    /// When it began; `None`: nobody saw.
    pub start: Option<Timestamp>,
    /// `profiler_common::fault::FAULT_*`
    pub flags: u32,
    /// The mapping, if it was read when the fault was handled.
    pub vma: Option<FaultVma>,
    /// What it waited for, in ns.
    pub waits: Waits,
    /// The attempts to handle it, valid with `FAULT_HANDLED`, and the processor's word, valid with `FAULT_EXCEPTION`.
    pub attempts: Attempts,
    /// First page that fault-around mapped, counted in the file.
    pub around_first: u64,
    /// Pages in the range that fault-around mapped: those of it that were in memory.
    pub around: u32,
    /// Pages that were read into the page cache meanwhile.
    pub read: u32,
    /// Signal that it ended with; 0: none.
    pub signal: u32,
    /// Where the thread was.
    pub stacks: Stacks<'a>,
}

/// How the kernel went about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempts {
    /// `profiler_common::fault::error_code`
    pub error_code: u32,
    /// `profiler_common::fault::asked`
    pub asked: u32,
    /// `profiler_common::fault::returned`
    pub returned: u32,
    /// Attempts after the first.
    pub retries: u32,
}

/// The mapping that a fault was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultVma {
    /// `VM_*`
    pub flags: u64,
    /// The file that it shows.
    pub file: Option<FaultFile>,
}

/// The place in a file that a fault touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultFile {
    /// The file.
    pub file: FileId,
    /// Where the page starts.
    pub offset: FileOffset,
    /// Magic number of the file system.
    pub magic: u32,
    /// How many more misses than hits the kernel saw: above 100 it does not read around.
    pub mmap_miss: u32,
}

/// Neighbouring pages that a recorded thread brought into the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PagesRead {
    /// Who, and when it was told.
    pub at: At,
    /// When the first one came.
    pub since: Timestamp,
    /// The file.
    pub file: FileId,
    /// First page, counted in the file.
    pub first: u64,
    /// How many.
    pub count: u32,
    /// Within a page fault; else by a system call.
    pub in_fault: bool,
    /// Binary logarithm of the pages of each folio, [`MAX_ORDER`] at most; `None`: written by a version that did not record it.
    pub order: Option<u8>,
}

/// Largest folio that a read can bring, as the binary logarithm of its pages: the kernel's own limit is below (`MAX_PAGECACHE_ORDER`).
pub const MAX_ORDER: u8 = 15;
