//! Which stacks the kernel side remembers to have sent: a table with a pair of places for each key.
//!
//! A stack that arrives takes the pair's first place and moves what was there to the second, so a key is driven out by the second one after it. Two CPUs
//! that write at once may lose the newer one of a pair; that stack is sent again when it comes back.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // Any bits of a hash do.

/// Places in the table, a power of two.
pub const PLACES: u32 = 1 << 18;
/// Pairs of them.
pub const PAIRS: u32 = PLACES / 2;

/// The pair of a key.
#[inline(always)]
pub const fn pair(key: u64) -> u32 {
    (key >> 21) as u32 & (PAIRS - 1)
}

/// The first of a pair's two places; the other one is behind it.
#[inline(always)]
pub const fn first_place(pair: u32) -> u32 {
    pair << 1
}
