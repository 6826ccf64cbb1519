//! Columns that are serialized from rows without a copy.

use serde::{Serialize, Serializer};

use crate::units::ms;
use base::addr::Timestamp;

/// One column of a table: a value per row.
pub struct Column<'a, T, F>(pub &'a [T], pub F);

impl<T, V: Serialize, F: Fn(&T) -> V> Serialize for Column<'_, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(&self.1))
    }
}

/// A column with the same value in every row.
pub struct Repeat<V>(pub V, pub usize);

impl<V: Serialize> Serialize for Repeat<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(std::iter::repeat_n(&self.0, self.1))
    }
}

/// Times in the front end's form: differences from the previous row, in ms.
pub fn deltas(times: impl Iterator<Item = Timestamp> + Clone, zero: Timestamp) -> impl Serialize {
    let deltas = times.scan(zero, |last, time| {
        let delta = ms(time, *last);
        *last = time;
        Some(delta)
    });
    Seq(deltas)
}

/// An iterator that is serialized as an array.
pub struct Seq<I>(pub I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for Seq<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}
