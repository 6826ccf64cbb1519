//! The stacks that the eBPF programs have sent: a table with a pair of entries for each key.
//!
//! A new stack takes the pair's first entry and moves the previous one to the second, so a key is evicted by the second one after it. Two CPUs
//! that write at once may lose the newer one of a pair; that stack is sent again when it recurs.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // Any bits of a hash do.

/// Number of entries of the table, a power of two.
pub const PLACES: u32 = 1 << 18;
/// Number of pairs.
pub const PAIRS: u32 = PLACES / 2;

/// The pair of a key.
#[inline(always)]
pub const fn pair(key: u64) -> u32 {
    (key >> 21) as u32 & (PAIRS - 1)
}

/// The first of a pair's two entries; the other one follows it.
#[inline(always)]
pub const fn first_place(pair: u32) -> u32 {
    pair << 1
}
