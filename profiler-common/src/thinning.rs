//! What a recording leaves out while it costs more than its limit.
//!
//! User space sets the levels and reads the time spent; programs read the levels and add the time.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What walking a stack is for. Each has its own level.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Page faults.
    Fault = 0,
    /// Waits, and those who end them.
    Wait = 1,
    /// CPU samples.
    Sample = 2,
}

impl Group {
    /// All, by number.
    pub const ALL: [Self; GROUPS] = [Self::Fault, Self::Wait, Self::Sample];
}

/// How many groups there are.
pub const GROUPS: usize = 3;

/// The highest level.
pub const MOST: u32 = 6;

/// What the level of each [`Group`] means; it is at most [`MOST`], and 0 leaves out nothing.
///
/// - Faults: of those that were short, one in 2^level has its stack walked, at random.
/// - Waits: of a thread's waits, 2^level times fewer are walked; the others take the stack of an earlier one.
/// - Samples: one in 2^level is taken, at random, and represents 2^level.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Levels(pub [u32; GROUPS]);

/// Time that walks of each [`Group`] took on a CPU, in ns.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Spent(pub [u64; GROUPS]);
