//! sampled: which faults are counted, and represented by one that is sent, with [`super::FAULTS_AUTO`].

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::error_code;

/// Faults that were counted, not sent.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Counted {
    /// Sum of their latencies, in ns.
    pub time: u64,
    /// Their number.
    pub faults: u32,
    /// Explicit padding.
    pub pad: u32,
}

/// Faults of anonymous memory that are sampled with [`super::FAULTS_AUTO`]: one represents only others of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampledKind {
    /// The first write to a page.
    FirstWrite = 0,
    /// A write to a page that is shared, since a fork or with the page of zeroes: it is copied.
    Copy = 1,
}

impl SampledKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::FirstWrite, Self::Copy];

    /// The kind of a write to anonymous memory, by the processor's error code.
    pub const fn of(error_code: u32) -> Self {
        if error_code & error_code::PRESENT == 0 {
            Self::FirstWrite
        } else {
            Self::Copy
        }
    }

    /// The kind with this number; the last one for others.
    pub const fn numbered(number: u32) -> Self {
        if number == Self::FirstWrite as u32 {
            Self::FirstWrite
        } else {
            Self::Copy
        }
    }

    /// An error code of this kind.
    pub const fn error_code(self) -> u32 {
        let present = match self {
            Self::FirstWrite => 0,
            Self::Copy => error_code::PRESENT,
        };
        error_code::WRITE | error_code::USER | present
    }
}

/// How the faults of a thread are sampled with [`super::FAULTS_AUTO`].
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Sampling {
    /// When the window began.
    pub since: u64,
    /// Faults in it that may be represented.
    pub faults: u32,
    /// Their average in the windows before, times [`SAMPLING_MEMORY`].
    pub level: u32,
    /// One of 2^`shift` of them is sent, at random.
    pub shift: u32,
    /// Explicit padding.
    pub pad: u32,
}

impl Sampling {
    /// The highest [`Sampling::shift`].
    pub const MOST: u32 = 16;
}

/// Length of a window of [`super::FAULTS_AUTO`] in ns: the probability in one follows from the faults in those before it.
pub const SAMPLING_WINDOW: u64 = 10_000_000;
/// Faults of a thread in a window that are sent, on average: from half as many as CPU samples at the usual rate to as many.
pub const SAMPLED_A_WINDOW: u32 = 5;
/// Windows that the average reaches back: faults come in bursts.
pub const SAMPLING_MEMORY: u32 = 4;
/// Faults of a thread that are recorded in any case.
pub const FIRST_FAULTS: u64 = 64;
/// A fault that took this long, in ns, is recorded in any case: the time of the others varies little.
pub const LONG_FAULT: u64 = 20_000;
