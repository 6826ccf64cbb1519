//! Columns that are serialized from rows without a copy.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::units::ms;
use base::addr::Timestamp;

/// Builds an object, such as a table, of named parts in this order.
macro_rules! object {
    (@parts) => { () };
    (@parts $name:literal: $part:expr, $($rest:tt)*) => {
        ($name, $part, crate::shared::columns::object!(@parts $($rest)*))
    };
    ($($parts:tt)*) => {
        crate::shared::columns::Object(crate::shared::columns::object!(@parts $($parts)*))
    };
}
pub(crate) use object;

/// What [`object`] builds.
pub struct Object<P>(pub P);

impl<P: Parts> Serialize for Object<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.add_to(&mut map)?;
        map.end()
    }
}

/// A list of named parts: the first one, and the rest.
pub trait Parts {
    /// Serializes them in order.
    fn add_to<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

impl Parts for () {
    fn add_to<M: SerializeMap>(&self, _: &mut M) -> Result<(), M::Error> {
        Ok(())
    }
}

impl<V: Serialize, R: Parts> Parts for (&str, V, R) {
    fn add_to<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(self.0, &self.1)?;
        self.2.add_to(map)
    }
}

/// One column of a table: a value per row.
pub fn column<T, V: Serialize>(rows: &[T], value: impl Fn(&T) -> V) -> impl Serialize {
    Column(rows, value)
}

struct Column<'a, T, F>(&'a [T], F);

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
