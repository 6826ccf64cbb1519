//! Lookup of rows by ascending keys, for joining with other rows in the same order.

use std::iter::Peekable;

use super::{Merge, Row};

/// Maximum number of rows kept per key; further ones are skipped.
const MAX: usize = 1 << 16;

/// Finds the rows of a key; keys must not decrease.
#[derive(Debug)]
pub struct SideTable<'r, T: Row> {
    rows: Peekable<Merge<'r, T>>,
    key: u64,
    here: Vec<T>,
}

impl<'r, T: Row> SideTable<'r, T> {
    /// Starts with the first row.
    pub fn new(rows: Merge<'r, T>) -> Self {
        Self {
            rows: rows.peekable(),
            key: 0,
            here: Vec::new(),
        }
    }

    /// Rows with this key, in insertion order. No larger key may have been looked up before.
    pub fn of(&mut self, key: u64) -> &[T] {
        if self.key != key {
            self.key = key;
            self.here.clear();
        }
        while let Some(row) = self.rows.next_if(|row| row.key() <= key) {
            if row.key() == key && self.here.len() < MAX {
                self.here.push(row);
            }
        }
        &self.here
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::{FromBytes, Immutable, IntoBytes};

    use super::*;
    use crate::sorted::Sorted;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
    #[repr(C)]
    struct Pair {
        key: u64,
        value: u64,
    }

    impl Row for Pair {
        fn key(&self) -> u64 {
            self.key
        }
    }

    #[test]
    fn rows_are_found_by_key() {
        let mut rows = Sorted::default();
        for (key, value) in [(0, 9), (7, 1), (5, 2), (7, 3), (6, 4)] {
            rows.push(Pair { key, value });
        }
        let ordered = rows.ordered();
        let mut side_table = SideTable::new(ordered.iter());
        let mut values = |key| side_table.of(key).iter().map(|pair| pair.value).collect::<Vec<_>>();
        assert_eq!(values(0), [9]);
        assert_eq!(values(5), [2]);
        assert_eq!(values(7), [1, 3]);
        assert_eq!(values(7), [1, 3]);
        assert!(values(8).is_empty());
    }

    #[test]
    fn rows_per_key_are_limited() {
        let mut rows = Sorted::default();
        for value in 0..=MAX as u64 {
            rows.push(Pair { key: 1, value });
        }
        rows.push(Pair { key: 2, value: 0 });
        let ordered = rows.ordered();
        let mut side_table = SideTable::new(ordered.iter());
        assert_eq!(side_table.of(1).len(), MAX);
        assert_eq!(side_table.of(2).len(), 1);
    }
}
