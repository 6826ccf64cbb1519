//! Rows that were searched for before: stacks repeat their outer frames, and a search takes ten looks at memory that is rarely near.
//!
//! A browser's main thread goes through some 80 frames; of 512 places 11 % of them miss, of 4,096 1.4 % (docs/measurements.md,
//! "Page faults").

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // The upper bits of a hash are its better ones, and few.

use crate::unwind::Row;

/// How many each CPU remembers, a power of two.
pub const KNOWN_ROWS: u32 = 4096;

/// A row and who asked for it: the last one of its hash. Zeroed memory is none.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownRow {
    /// One more than the place; 0: none.
    key: u64,
    row: Row,
}

impl KnownRow {
    /// Which of a CPU's places the row for the byte `offset` of page number `page` among all tables' pages takes.
    #[inline(always)]
    pub const fn place(page: u32, offset: u16) -> u32 {
        let hash = key(page, offset).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - KNOWN_ROWS.trailing_zeros())) as u32
    }

    /// The row for that byte; `search` is asked for what is not remembered here.
    /// Nothing is ever forgotten for being outdated: a page, once loaded, is never taken away or changed.
    #[inline(always)]
    pub fn get(&mut self, page: u32, offset: u16, search: impl FnOnce() -> Row) -> Row {
        let key = key(page, offset);
        if self.key != key {
            self.row = search();
            self.key = key;
        }
        self.row
    }
}

#[inline(always)]
const fn key(page: u32, offset: u16) -> u64 {
    ((page as u64) << 16 | offset as u64) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::{Cfa, Fp};

    fn row(page: u32, offset: u16) -> Row {
        let page = i16::try_from(page & 0x7fff).unwrap();
        Row::new(offset, Cfa::Sp, page, Fp::Same, 0, 0)
    }

    #[test]
    fn a_row_is_searched_for_once() {
        for (page, offset) in [(0, 0), (0, 1), (7, 0xffff), (u32::MAX, 0xffff)] {
            let mut known = KnownRow::default();
            assert_eq!(known.get(page, offset, || row(page, offset)), row(page, offset));
            assert_eq!(known.get(page, offset, || unreachable!("known")), row(page, offset));
        }
    }

    #[test]
    fn places_that_share_a_hash_are_told_apart() {
        let mut known = std::vec![KnownRow::default(); KNOWN_ROWS as usize];
        for _ in 0..2 {
            for page in 0..64 {
                for offset in (0..=u16::MAX).step_by(97) {
                    let place = KnownRow::place(page, offset) as usize;
                    assert_eq!(known[place].get(page, offset, || row(page, offset)), row(page, offset));
                }
            }
        }
    }
}
