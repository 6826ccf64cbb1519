//! The profile's `ngmi` section: data that the reader needs and the format cannot represent,
//! bit-exact.
//!
//! A profile that is saved from the web page passes through JavaScript, where integers are exact
//! only up to 2⁵³: larger ones are written as `{"u64": "…"}`.

pub(crate) mod cause;
pub(crate) mod kernel;
pub(crate) mod references;
pub(crate) mod request;
pub(crate) mod wait;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use self::cause::RawCause;
use self::request::RawRequest;
use crate::shared::columns::{Seq, object};
use crate::shared::{Shared, place};
use base::addr::{Timestamp, ns};
use fact::Tables;
use fact::reduce::budget::Collected;

/// Version of the section.
pub const VERSION: u32 = 7;
/// Largest integer that JavaScript represents exactly, with all smaller ones.
const JS_MAX: u64 = (1 << 53) - 1;
/// The only key of the object that represents a large integer.
const KEY: &str = "u64";

/// The content of the section.
pub struct Exact<'a> {
    /// The tables that facts refer to.
    pub tables: &'a Tables,
    /// The shared tables, with the numbers of symbols.
    pub shared: &'a Shared<'a>,
    /// Row of the first labelled stack.
    pub labels: usize,
    /// The facts with requests and causes.
    pub collected: &'a Collected,
    /// The profile's time 0.
    pub zero: Timestamp,
}

impl Serialize for Exact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Tables {
            recording,
            processes,
            threads,
            modules,
            frames,
            files,
            devices,
            ..
        } = self.tables;
        let Collected { requests, causes, .. } = self.collected;
        let request = |request| RawRequest::new(request, self.shared, self.zero);
        let cause = |cause| RawCause::new(cause, self.zero);
        let section = object! {
            "version": VERSION,
            "zero": self.zero.0.to_string(),
            "recording": Portable(recording),
            "processes": Seq(processes.iter().map(Portable)),
            "threads": Seq(threads.iter().map(Portable)),
            "modules": Seq(modules.iter().map(Portable)),
            "files": Seq(files.iter().map(Portable)),
            "devices": Seq(devices.iter().map(Portable)),
            "requests": Seq(requests.iter().map(request)),
            "causes": Seq(causes.iter().map(cause)),
            "labels": self.labels,
            "frames": Seq(frames.iter().map(place::encode)),
            "symbols": Seq(self.shared.symbol_ranges()),
        };
        section.serialize(serializer)
    }
}

/// Serializes integers in a form that JavaScript preserves.
struct Portable<'a, T>(&'a T);

impl<T: Serialize> Serialize for Portable<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(self.0).map_err(serde::ser::Error::custom)?;
        protect(&mut value);
        value.serialize(serializer)
    }
}

fn protect(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_u64().filter(|number| *number > JS_MAX) {
                *value = Value::Object(Map::from_iter([(KEY.to_owned(), Value::String(number.to_string()))]));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(protect),
        Value::Object(fields) => fields.values_mut().for_each(protect),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn restore(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let number = match fields.get(KEY) {
                Some(Value::String(digits)) if fields.len() == 1 => digits.parse::<u64>().ok(),
                _ => None,
            };
            match number {
                Some(number) => *value = Value::from(number),
                None => fields.values_mut().for_each(restore),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(restore),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// An integer in a form that JavaScript preserves: a string if it is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Big(pub u64);

impl Big {
    /// The time from `zero`, in ns.
    pub fn since(time: Timestamp, zero: Timestamp) -> Self {
        Self(time.0.saturating_sub(zero.0))
    }

    /// The duration of this many ns.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Big {
    fn from(time: Duration) -> Self {
        Self(ns(time))
    }
}

impl Serialize for Big {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 <= JS_MAX {
            serializer.serialize_u64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Big {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Big;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an integer, or one in a string")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Big, E> {
                Ok(Big(number))
            }

            fn visit_str<E: serde::de::Error>(self, digits: &str) -> Result<Big, E> {
                digits.parse().map(Big).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Deserializes a value that [`Exact`] wrote.
pub fn from_portable<T: DeserializeOwned>(mut value: Value) -> Result<T, serde_json::Error> {
    restore(&mut value);
    serde_json::from_value(value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A failed unwrap fails the test.
mod tests {
    use super::*;
    use fact::Recording;

    #[test]
    fn large_integers_round_trip_as_strings() {
        let recording = Recording {
            start: Timestamp(u64::MAX),
            end: Timestamp(JS_MAX),
            losses: vec![("u64".into(), JS_MAX + 1)],
            ..Recording::default()
        };
        let text = serde_json::to_string(&Portable(&recording)).unwrap();
        assert!(text.contains(r#""start":{"u64":"18446744073709551615"}"#), "{text}");
        assert!(text.contains(r#""end":9007199254740991"#), "{text}");
        let back: Recording = from_portable(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(back, recording);
    }
}
