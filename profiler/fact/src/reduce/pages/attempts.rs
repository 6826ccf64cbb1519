//! How often the kernel attempted a fault: only an attempt after the first one finds the pages that the first one read.

use crate::fault::FaultFact;

/// Attempts of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempts {
    /// One: it looked around before it read, and mapped nothing of what it read.
    One,
    /// Several: the last one looked around with all pages in memory.
    Several,
    /// One or several.
    Unknown,
}

impl Attempts {
    /// Tier 1 counts them. Where they are not counted, *major* implies several: a first attempt that has to read releases its locks and
    /// is repeated, and a repeated fault is counted as major (mm/memory.c: `mm_account_fault`). A wait implies several, too. Without either the number is unknown: a page
    /// may arrive before the thread waits for it, and the repetition of a fault that only read ahead is minor if it holds only the mapping's lock.
    ///
    /// A kernel that skips programs may hide an attempt from tier 1: the only attempt that it shows of a major fault may not be the only one.
    pub fn of(fault: &FaultFact) -> Self {
        match fault.retries {
            Some(0) if !fault.major => Self::One,
            Some(0) => Self::Unknown,
            Some(_) => Self::Several,
            None if fault.major || fault.waited() => Self::Several,
            None => Self::Unknown,
        }
    }
}
