//! The parts of the library's profile that are kept: everything except the tables of its threads,
//! which are written separately.
//!
//! A long recording has a hundred thousand threads. So the library's profile is streamed through a
//! pipe as text, and neither the profile nor its tables are ever complete in memory; the rest of a
//! thread's row is also kept as text, in a fifth of the memory of its fields.

use std::fmt;
use std::io::{BufReader, BufWriter, Write as _, pipe};
use std::thread;

use fxprof_processed_profile::Profile;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::error::WriteError;

/// Fields of thread rows of format 55 that belong to tables.
const TABLES: [&str; 8] = [
    "frameTable",
    "funcTable",
    "markers",
    "nativeSymbols",
    "resourceTable",
    "samples",
    "stackTable",
    "stringArray",
];

/// The parts.
#[derive(Debug, Deserialize)]
pub struct Parts {
    /// `meta`
    pub meta: Map<String, Value>,
    /// Rows of `threads`.
    pub threads: Vec<ThreadRow>,
    /// `counters`
    pub counters: Vec<Value>,
}

impl Parts {
    /// Extracts the parts of a profile.
    ///
    /// # Errors
    /// There is no pipe available, or the library's profile is invalid.
    pub fn of(profile: &Profile) -> Result<Self, WriteError> {
        let (read, write) = pipe()?;
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut out = BufWriter::new(write);
                serde_json::to_writer(&mut out, profile)?;
                out.flush()
            });
            let parts = serde_json::from_reader(BufReader::new(read)).map_err(std::io::Error::from);
            let written = writer.join();
            let parts = parts?;
            written.map_err(|_| WriteError::Inconsistent("the library's profile"))??;
            Ok(parts)
        })
    }
}

/// A row of `threads` without its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRow(Box<str>);

impl ThreadRow {
    /// Builds a row from these fields.
    pub fn new(fields: Map<String, Value>) -> Self {
        Self(Value::Object(fields).to_string().into())
    }

    /// Its fields.
    pub fn fields(&self) -> Map<String, Value> {
        // The text was serialized from fields.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for ThreadRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WithoutTables).map(Self::new)
    }
}

struct WithoutTables;

impl<'de> Visitor<'de> for WithoutTables {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a thread")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if TABLES.contains(&key.as_str()) {
                map.next_value::<IgnoredAny>()?;
            } else {
                fields.insert(key, map.next_value()?);
            }
        }
        Ok(fields)
    }
}
