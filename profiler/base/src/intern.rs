//! Numbers distinct values.

use std::borrow::Borrow;
use std::hash::Hash;
use std::ops::Deref;

use rustc_hash::FxHashMap;

/// Distinct values, numbered in the order of their first appearance.
#[derive(Debug, Clone)]
pub struct Interner<T> {
    values: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// The number of a value that was added before.
    pub fn known<Q>(&self, value: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.numbers.get(value).copied()
    }

    /// The number of a value. A new one is added, as `own` returns it; `None` once there are `most` values, or 2^32 - 1.
    pub fn number<Q>(&mut self, value: &Q, most: usize, own: impl FnOnce(&Q) -> T) -> Option<u32>
    where
        T: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        match self.known(value) {
            None if self.values.len() < most => self.push(own(value)),
            known => known,
        }
    }

    /// As [`Self::number`], for an owned value.
    pub fn add(&mut self, value: T, most: usize) -> Option<u32> {
        match self.known(&value) {
            None if self.values.len() < most => self.push(value),
            known => known,
        }
    }

    fn push(&mut self, value: T) -> Option<u32> {
        let next = u32::try_from(self.values.len()).ok().filter(|next| *next < u32::MAX)?;
        self.values.push(value.clone());
        self.numbers.insert(value, next);
        Some(next)
    }

    /// The values, by number.
    pub fn into_values(self) -> Vec<T> {
        self.values
    }
}

/// The values, by number.
impl<T> Deref for Interner<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_number_up_to_the_limit() {
        let mut names = Interner::default();
        let numbers = ["a", "b", "a", "c", "b"].map(|name| names.number(name, 2, str::to_owned));
        assert_eq!(numbers, [Some(0), Some(1), Some(0), None, Some(1)]);
        assert_eq!(*names, ["a", "b"]);
        assert_eq!(names.number("c", usize::MAX, str::to_owned), Some(2));
        assert_eq!(names.add("a".to_owned(), 0), Some(0));
        assert_eq!(names.into_values(), ["a", "b", "c"]);
    }
}
