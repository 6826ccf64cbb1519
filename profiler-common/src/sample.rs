//! sample: a thread was on a CPU when the sampling event fired.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::RecordHeader;
use crate::stack::Stacks;

/// Start of a sample's record; the copy of the stack follows.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct SampleHead {
    /// Kind [`crate::RecordKind::Sample`].
    pub header: RecordHeader,
    /// The thread's CPU time since its previous sample, in ns.
    pub cpu_time: u64,
    /// Its stack.
    pub stacks: Stacks,
}

const _: () = assert!(size_of::<SampleHead>() == 96);
