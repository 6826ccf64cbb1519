//! What sums are of.

use super::Table;
use crate::path::walk::Kind;
use fact::fault::FaultClass;
use fact::request::Operation;
use fact::{DeviceId, WaitReason};

/// The kind of event that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// Time on a CPU.
    Sample,
    /// A page fault.
    Fault(FaultClass),
    /// A wait.
    Wait(WaitReason),
    /// A part of a request.
    Io(DeviceId, Operation),
    /// A piece of the critical path.
    Path(Kind),
}

impl What {
    /// The table that this event belongs to.
    pub fn table(self) -> Table {
        match self {
            Self::Sample => Table::Samples,
            Self::Fault(_) => Table::Faults,
            Self::Wait(_) => Table::Waits,
            Self::Io(..) => Table::Requests,
            Self::Path(_) => Table::Path,
        }
    }
}
