//! How often the kernel attempted a fault: only an attempt after the first one finds in memory what the first one read.

use crate::fact::fault::FaultFact;

/// Attempts of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempts {
    /// It looked around before it read, and mapped nothing of what it read.
    One,
    /// The last one looked around with everything there.
    Several,
    /// Either.
    Unknown,
}

impl Attempts {
    /// Tier 1 counts them. Where nothing does, the kernel's word *major* stands for several: a first attempt that has to read gives up its locks and
    /// is repeated, and a repeated fault is counted as major (mm/memory.c: `mm_account_fault`). So does a wait. Without either nothing is known: a page may
    /// be there before the thread waits for it, and the repetition of a fault that only read ahead is minor under a lock of the mapping alone.
    ///
    /// A kernel that skips programs may have hidden an attempt from tier 1: one that is said to be the only one, of a major fault, need not be.
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
