//! Facts and threads that exceeded the profile's budget, as sums.

use serde::{Deserialize, Serialize};

use super::ThreadId;
use super::fault::{FaultClass, MappedFileId, PagesBy};

/// Faults of one thread that exceeded the profile's budget: the shortest minor ones are folded first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedFaults {
    /// The thread.
    pub thread: ThreadId,
    /// Their class.
    pub class: FaultClass,
    /// Whether the kernel counts them as major.
    pub major: bool,
    /// Number of faults.
    pub faults: u64,
    /// Sum of [`FaultFact::time`](super::FaultFact::time), in ns.
    pub time: u64,
    /// Pages that were read into the page cache meanwhile.
    pub pages_read: u64,
}

/// Reads of one file's pages that exceeded the profile's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedReads {
    /// The file.
    pub file: MappedFileId,
    /// How.
    pub by: PagesBy,
    /// Number of [`PagesReadFact`](super::PagesReadFact)s.
    pub runs: u64,
    /// Number of their pages.
    pub pages: u64,
}

/// A row of merged threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedThreads {
    /// The row.
    pub thread: ThreadId,
    /// Number of merged threads.
    pub threads: u64,
    /// Number of them with CPU samples.
    pub ran: u64,
    /// Number of their processes; 0 if the process also has rows of single threads.
    pub processes_ran: u64,
}
