//! Rows that were searched for before: stacks repeat their outer frames, and a search takes ten looks at memory that is rarely near.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation)] // The upper bits of a hash are its better ones, and few.

use crate::unwind::Row;

/// How many are remembered, a power of two.
const COUNT: usize = 512;

/// A row and who asked for it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct KnownRow {
    /// One more than the place; 0: none.
    key: u64,
    row: Row,
}

/// Rows by place, the last one of each hash. Zeroed memory is an empty one.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct KnownRows([KnownRow; COUNT]);

impl Default for KnownRows {
    fn default() -> Self {
        Self([KnownRow::default(); COUNT])
    }
}

impl KnownRows {
    /// The row for the byte `offset` of page number `page` among all tables' pages; `search` is asked for what is not remembered.
    /// Nothing is ever forgotten for being outdated: a page, once loaded, is never taken away or changed.
    #[inline(always)]
    pub fn row(&mut self, page: u32, offset: u16, search: impl FnOnce() -> Row) -> Row {
        let key = (u64::from(page) << 16 | u64::from(offset)) + 1;
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - COUNT.trailing_zeros());
        let Some(known) = self.0.get_mut(hash as usize & (COUNT - 1)) else {
            return search();
        };
        if known.key != key {
            known.row = search();
            known.key = key;
        }
        known.row
    }
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
        let mut known = KnownRows::default();
        for (page, offset) in [(0, 0), (0, 1), (7, 0xffff), (u32::MAX, 0xffff)] {
            assert_eq!(known.row(page, offset, || row(page, offset)), row(page, offset));
            assert_eq!(known.row(page, offset, || panic!("known")), row(page, offset));
        }
    }

    #[test]
    fn places_that_share_a_hash_are_told_apart() {
        let mut known = KnownRows::default();
        for _ in 0..2 {
            for page in 0..64 {
                for offset in (0..=u16::MAX).step_by(97) {
                    assert_eq!(known.row(page, offset, || row(page, offset)), row(page, offset));
                }
            }
        }
    }
}
