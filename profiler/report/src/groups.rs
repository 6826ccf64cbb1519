//! Sums grouped by a key, sorted for printed tables.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// A sum that rows of a table can be sorted by.
pub trait Ranked: Default {
    /// The sort key, in descending order.
    fn rank(&self) -> (u64, u64);
}

/// One sum per key.
#[derive(Debug)]
pub struct Groups<K, T>(FxHashMap<K, T>);

impl<K, T> Default for Groups<K, T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Hash + Ord, T: Ranked> Groups<K, T> {
    /// The sum of `key`, which starts at its default.
    pub fn of(&mut self, key: K) -> &mut T {
        self.0.entry(key).or_default()
    }

    /// All groups by descending rank, then by key.
    pub fn sorted(self) -> Vec<(K, T)> {
        let mut groups: Vec<(K, T)> = self.0.into_iter().collect();
        groups.sort_unstable_by(|(a, left), (b, right)| (right.rank(), a).cmp(&(left.rank(), b)));
        groups
    }
}
