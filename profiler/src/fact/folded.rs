//! Facts that the profile's budget has as sums only.

use serde::{Deserialize, Serialize};

use super::ThreadId;
use super::fault::{FaultClass, MappedFileId};

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
