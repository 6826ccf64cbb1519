//! Sums by a key, in the order of tables.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// A sum that tables are in the order of.
pub trait Ranked: Default {
    /// The largest comes first.
    fn rank(&self) -> (u64, u64);
}

/// Groups by a key.
#[derive(Debug)]
pub struct Groups<K, T>(FxHashMap<K, T>);

impl<K, T> Default for Groups<K, T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Hash + Ord, T: Ranked> Groups<K, T> {
    /// The group.
    pub fn of(&mut self, key: K) -> &mut T {
        self.0.entry(key).or_default()
    }

    /// Those with the highest rank first, then by key.
    pub fn sorted(self) -> Vec<(K, T)> {
        let mut groups: Vec<(K, T)> = self.0.into_iter().collect();
        groups.sort_unstable_by(|(a, left), (b, right)| (right.rank(), a).cmp(&(left.rank(), b)));
        groups
    }
}
