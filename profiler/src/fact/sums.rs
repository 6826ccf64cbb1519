//! Sums by key, of which there may be millions: sorted and without gaps, but for the latest.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Keys that are new, at most, before they are sorted in; or an eighth of the sorted ones.
const RECENT: usize = 1 << 12;

/// What can be summed up by key.
pub trait Sum: Copy {
    /// What tells sums apart.
    type Key: Ord + Hash + Copy;

    /// Which sum it belongs to.
    fn key(&self) -> Self::Key;

    /// Takes over another one of the same key.
    fn add(&mut self, more: &Self);
}

/// One sum for each key.
#[derive(Debug)]
pub struct Sums<T: Sum> {
    /// Keys ascending, each once.
    sorted: Vec<T>,
    /// Those that came since; a key may be among the sorted ones too.
    recent: FxHashMap<T::Key, T>,
}

impl<T: Sum> Default for Sums<T> {
    fn default() -> Self {
        Self {
            sorted: Vec::new(),
            recent: FxHashMap::default(),
        }
    }
}

impl<T: Sum> Sums<T> {
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

    /// Sorts in what came since.
    fn settle(&mut self) {
        let Self { sorted, recent } = self;
        recent.retain(|key, more| match sorted.binary_search_by_key(key, T::key) {
            Ok(at) => {
                sorted[at].add(more);
                false
            }
            Err(_) => true,
        });
        // Room for more than that would be as much again.
        sorted.reserve_exact(recent.len());
        sorted.extend(recent.drain().map(|(_, sum)| sum));
        sorted.sort_unstable_by_key(T::key);
    }

    /// All, keys ascending.
    pub fn into_sorted(mut self) -> Vec<T> {
        self.settle();
        self.sorted
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    impl Sum for (u32, u64) {
        type Key = u32;

        fn key(&self) -> u32 {
            self.0
        }

        fn add(&mut self, more: &Self) {
            self.1 += more.1;
        }
    }

    proptest! {
        #[test]
        fn each_key_has_one_sum_however_many_there_are(parts in prop::collection::vec((0u32..30_000, 0u64..1000), 0..40_000)) {
            let mut sums = Sums::default();
            let mut expected = BTreeMap::new();
            for (key, part) in parts {
                sums.add((key, part));
                *expected.entry(key).or_insert(0) += part;
            }
            prop_assert_eq!(sums.into_sorted(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
