//! Sums by key, for millions of keys: sorted and without gaps, except for the latest.

use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxHashMap;

use crate::prune::Visit;
use base::hash::hash;

/// Maximum number of new keys before they are sorted in; or an eighth of the sorted ones.
const RECENT: usize = 1 << 12;

/// A value that is summed up by key.
pub trait Sum: Copy {
    /// Identifies a sum.
    type Key: Ord + Hash + Copy;

    /// The key of its sum.
    fn key(&self) -> Self::Key;

    /// Adds another one with the same key.
    fn add(&mut self, more: &Self);
}

/// Implements [`Sum`] for a struct, by the fields that identify a sum, those that are added, and those of which the largest
/// is kept.
macro_rules! summed {
    ($Row:ty, by $($key:ident: $Key:ty),+; add $($added:ident),+ $(; max $($largest:ident),+)?) => {
        impl $crate::reduce::sums::Sum for $Row {
            type Key = ($($Key),+);

            fn key(&self) -> Self::Key {
                ($(self.$key),+)
            }

            fn add(&mut self, more: &Self) {
                $(self.$added = self.$added.saturating_add(more.$added);)+
                $($(self.$largest = self.$largest.max(more.$largest);)+)?
            }
        }
    };
}
pub(crate) use summed;

/// One sum for each key.
#[derive(Debug)]
pub struct KeyedSums<T: Sum> {
    /// Keys ascending, each once.
    sorted: Vec<T>,
    /// Sums since the last sort; a key may be among the sorted ones too.
    recent: FxHashMap<T::Key, T>,
}

impl<T: Sum> Default for KeyedSums<T> {
    fn default() -> Self {
        Self {
            sorted: Vec::new(),
            recent: FxHashMap::default(),
        }
    }
}

impl<T: Sum> KeyedSums<T> {
    /// Adds to the sum of its key.
    pub fn add(&mut self, more: T) {
        if let Some(sum) = self.recent.get_mut(&more.key()) {
            sum.add(&more);
            return;
        }
        if self.recent.len() >= RECENT.max(self.sorted.len() / 8) {
            self.settle();
        }
        self.recent.insert(more.key(), more);
    }

    /// Sorts in the recent sums.
    fn settle(&mut self) {
        let Self { sorted, recent } = self;
        recent.retain(|key, more| match sorted.binary_search_by_key(key, T::key) {
            Ok(at) => {
                sorted[at].add(more);
                false
            }
            Err(_) => true,
        });
        // The default growth would double the memory.
        sorted.reserve_exact(recent.len());
        sorted.extend(recent.drain().map(|(_, sum)| sum));
        sorted.sort_unstable_by_key(T::key);
    }

    /// All sums, keys ascending.
    pub fn into_sorted(mut self) -> Vec<T> {
        self.settle();
        self.sorted
    }
}

/// One sum per key, found by hashing. A map would store the key twice, and everything twice while stacks are
/// renumbered.
#[derive(Debug)]
pub struct SumTable<T: Sum> {
    rows: Vec<T>,
    /// Index of each sum.
    places: HashTable<u32>,
}

impl<T: Sum> Default for SumTable<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            places: HashTable::new(),
        }
    }
}

impl<T: Sum> SumTable<T> {
    /// Number of sums.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is a sum for this key.
    pub fn has(&self, key: &T::Key) -> bool {
        self.places
            .find(hash(key), |at| self.rows[*at as usize].key() == *key)
            .is_some()
    }

    /// Adds to the sum of its key.
    pub fn add(&mut self, more: T) {
        if let Some(at) = self.place(&more, self.rows.len()) {
            self.rows[at].add(&more);
        } else {
            self.rows.push(more);
        }
    }

    /// Index of the sum for its key among the first `len`; otherwise registers it as the next one.
    fn place(&mut self, of: &T, len: usize) -> Option<usize> {
        let (key, rows) = (of.key(), &self.rows);
        let hash_at = |at: &u32| hash(&rows[*at as usize].key());
        match self
            .places
            .entry(hash(&key), |at| rows[*at as usize].key() == key, hash_at)
        {
            Entry::Occupied(known) => Some(*known.get() as usize),
            Entry::Vacant(room) => {
                room.insert(u32::try_from(len).unwrap_or(u32::MAX));
                None
            }
        }
    }

    /// Visits each sum, whose key may change. Sums that then have the same key are joined.
    pub fn visit(&mut self, visit: &mut dyn Visit, each: impl Fn(&mut T, &mut dyn Visit)) {
        self.rows.iter_mut().for_each(|row| each(row, visit));
        if !visit.renumbers() {
            return;
        }
        self.places.clear();
        let mut kept = 0;
        for at in 0..self.rows.len() {
            let row = self.rows[at];
            if let Some(known) = self.place(&row, kept) {
                self.rows[known].add(&row);
            } else {
                self.rows[kept] = row;
                kept += 1;
            }
        }
        self.rows.truncate(kept);
    }

    /// All sums, unordered.
    pub fn into_rows(self) -> Vec<T> {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{FrameId, StackId};

    impl Sum for (u32, u64) {
        type Key = u32;

        fn key(&self) -> u32 {
            self.0
        }

        fn add(&mut self, more: &Self) {
            self.1 += more.1;
        }
    }

    /// Halves each number in a key.
    struct Halves;

    impl Visit for Halves {
        fn stack(&mut self, stack: &mut StackId) {
            *stack = StackId::new(stack.number() / 2);
        }

        fn frame(&mut self, _: &mut FrameId) {}

        fn renumbers(&self) -> bool {
            true
        }
    }

    proptest! {
        #[test]
        fn equal_keys_are_joined(parts in prop::collection::vec((0u32..100, 0u64..1000), 0..300)) {
            let mut table = SumTable::default();
            let mut expected = BTreeMap::new();
            for (key, part) in parts {
                table.add((key, part));
                *expected.entry(key / 2).or_insert(0) += part;
            }
            table.visit(&mut Halves, |row: &mut (u32, u64), visit| {
                let mut stack = StackId::new(row.0);
                visit.stack(&mut stack);
                row.0 = stack.number();
            });
            for (key, part) in &mut expected {
                prop_assert!(table.has(key));
                table.add((*key, 7));
                *part += 7;
            }
            prop_assert_eq!(table.count(), expected.len());
            prop_assert!(!table.has(&1000));
            let mut rows = table.into_rows();
            rows.sort_unstable();
            prop_assert_eq!(rows, expected.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn each_key_has_one_sum(parts in prop::collection::vec((0u32..30_000, 0u64..1000), 0..40_000)) {
            let mut sums = KeyedSums::default();
            let mut expected = BTreeMap::new();
            for (key, part) in parts {
                sums.add((key, part));
                *expected.entry(key).or_insert(0) += part;
            }
            prop_assert_eq!(sums.into_sorted(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
