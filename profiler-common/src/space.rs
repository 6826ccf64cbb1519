//! Address spaces: which code is mapped where, for the walker.
//!
//! A thread's address space has an id ([`space_id`]), which its [`crate::scope::ThreadState`] holds. User space keeps, for each
//! id, a *run*: the code ranges of that space, sorted by start, as neighbours in one large array. A new mapping writes a
//! new run elsewhere and then replaces the space's run number, so a walk always sees a whole run, old or new. A child takes
//! over its parent's run at birth and keeps it until user space writes one for the child.

/// One range of code of an address space.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct CodeRange {
    /// First address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// Subtracted from an address it gives the place in the table: upper bits the page, counted from the table's first one.
    pub bias: u64,
    /// Where the table's pages start in the array of pages.
    pub first_page: u32,
    /// How many pages the table has.
    pub pages: u32,
    /// [`TABLE`], [`FRAME_POINTERS`] or [`PENDING`].
    pub unwinding: u32,
    /// Explicit padding.
    pub pad: u32,
}

/// [`CodeRange::unwinding`]: the file's table is not here yet.
pub const PENDING: u32 = 0;
/// [`CodeRange::unwinding`]: by the table.
pub const TABLE: u32 = 1;
/// [`CodeRange::unwinding`]: code without a table, made at run time for example; its frame pointers may be good.
pub const FRAME_POINTERS: u32 = 2;

/// Most ranges of one address space that the walker searches.
pub const MAX_RANGES: u32 = 1 << 16;

/// The id of an address space: of the process `pid`, made at `time` (ns). 0 is no id.
pub const fn space_id(pid: u32, time: u64) -> u64 {
    (pid as u64) << 32 | (time >> 8 & 0xffff_fffe) | 1
}

/// The id of an address space that existed when the recording began.
pub const fn first_space_id(pid: u32) -> u64 {
    (pid as u64) << 32
}

/// A run as one word, so that it can be replaced at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Index of its first range.
    pub first: u32,
    /// How many ranges.
    pub count: u32,
}

impl Run {
    /// As one word.
    pub const fn to_word(self) -> u64 {
        (self.first as u64) << 32 | self.count as u64
    }

    /// From one word.
    pub const fn from_word(word: u64) -> Self {
        Self {
            first: (word >> 32) as u32,
            count: (word & 0xffff_ffff) as u32,
        }
    }
}

const _: () = assert!(size_of::<CodeRange>() == 40);
