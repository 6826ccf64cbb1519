//! Address spaces: the mapped code, for the walker.
//!
//! A thread's address space has an id ([`space_id`]), which is in its [`crate::scope::ThreadState`]. User space maintains, for each
//! id, a *run*: the code ranges of that space, sorted by start, contiguous in one large array. A new mapping writes a
//! new run elsewhere and then replaces the space's run number, so a walk always sees a complete run, old or new. A child takes
//! over its parent's run when it is created and keeps it until user space writes one for the child.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One code range of an address space.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct CodeRange {
    /// First address.
    pub start: u64,
    /// End address (exclusive).
    pub end: u64,
    /// Subtracted from an address, it gives the position in the table: upper bits the page, counted from the table's first one.
    pub bias: u64,
    /// Index of the table's first page in the array of pages.
    pub first_page: u32,
    /// Number of pages of the table.
    pub pages: u32,
    /// [`TABLE`], [`FRAME_POINTERS`] or [`PENDING`].
    pub unwinding: u32,
    /// Explicit padding.
    pub pad: u32,
}

/// [`CodeRange::unwinding`]: the file's table is not loaded yet.
pub const PENDING: u32 = 0;
/// [`CodeRange::unwinding`]: by the table.
pub const TABLE: u32 = 1;
/// [`CodeRange::unwinding`]: code without a table, for example generated at run time; its frame pointers may be valid.
pub const FRAME_POINTERS: u32 = 2;

/// Maximum number of ranges of one address space that the walker searches.
pub const MAX_RANGES: u32 = 1 << 16;

/// The id of an address space: of the process `pid`, created at `time` (ns). 0 is not an id.
pub const fn space_id(pid: u32, time: u64) -> u64 {
    (pid as u64) << 32 | (time >> 8 & 0xffff_fffe) | 1
}

/// The id of an address space that existed when the recording began.
pub const fn first_space_id(pid: u32) -> u64 {
    (pid as u64) << 32
}

/// Maximum number of entries for ranges: what the words of runs can address.
pub const MAX_PLACES: u32 = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 20;
/// A run may fill all entries.
const COUNT_BITS: u32 = PLACE_BITS + 1;

/// A run as one word, so it can be replaced atomically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Index of its first range, less than [`MAX_PLACES`].
    pub first: u32,
    /// Number of ranges, at most [`MAX_PLACES`].
    pub count: u32,
    /// Version of 23 bits, which changes each time a run is written: cached data of a run is not used for the next one in its place.
    pub version: u32,
}

impl Run {
    /// Packs the run into one word, truncating what does not fit.
    pub const fn to_word(self) -> u64 {
        let version = (self.version as u64) << (PLACE_BITS + COUNT_BITS);
        let count = self.count as u64 & ((1 << COUNT_BITS) - 1);
        let first = self.first as u64 & ((1 << PLACE_BITS) - 1);
        version | count << PLACE_BITS | first
    }

    /// Unpacks a word.
    pub const fn from_word(word: u64) -> Self {
        Self {
            first: (word & ((1 << PLACE_BITS) - 1)) as u32,
            count: (word >> PLACE_BITS & ((1 << COUNT_BITS) - 1)) as u32,
            version: (word >> (PLACE_BITS + COUNT_BITS)) as u32,
        }
    }
}

const _: () = assert!(size_of::<CodeRange>() == 40);
