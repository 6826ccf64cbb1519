//! The parts of a Gecko profile that markers need, each parsed on its own: a wrong type in one of them damages only it.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::limits;

/// A process, with its child processes.
#[derive(Deserialize)]
pub struct RawProcess<'a> {
    #[serde(borrow, default)]
    meta: Option<&'a RawValue>,
    /// Its threads.
    #[serde(borrow, default)]
    pub threads: Vec<&'a RawValue>,
    /// Its child processes.
    #[serde(borrow, default)]
    pub processes: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    pages: Option<&'a RawValue>,
    #[serde(borrow, default)]
    shared: Option<&'a RawValue>,
    #[serde(borrow, default)]
    counters: Option<&'a RawValue>,
}

impl RawProcess<'_> {
    /// `meta`; null if it is missing or not reasonable.
    pub fn meta(&self) -> Value {
        value(self.meta)
    }

    /// Rows of `pages`.
    pub fn pages(&self) -> Value {
        value(self.pages)
    }

    /// Its counters.
    pub fn counters(&self) -> Vec<&RawValue> {
        let parsed = self.counters.map(|raw| serde_json::from_str(raw.get()));
        parsed.and_then(Result::ok).unwrap_or_default()
    }

    /// Strings that all threads share, in profiles where they do.
    pub fn strings(&self) -> Vec<String> {
        let parsed = self.shared.map(|raw| serde_json::from_str::<Shared>(raw.get()));
        parsed
            .and_then(Result::ok)
            .map_or_else(Vec::new, |shared| shared.strings)
    }
}

fn value(raw: Option<&RawValue>) -> Value {
    let text = raw.map(RawValue::get).filter(|text| text.len() <= limits::META);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

#[derive(Deserialize)]
struct Shared {
    #[serde(rename = "stringArray", alias = "stringTable")]
    strings: Vec<String>,
}

/// A thread.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawThread<'a> {
    #[serde(default)]
    name: Value,
    #[serde(default)]
    process_name: Value,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    /// Milliseconds since the process's start.
    #[serde(default)]
    register_time: Value,
    /// Its markers.
    #[serde(borrow)]
    pub markers: RawTable<'a>,
    /// Its strings, unless they are shared.
    #[serde(default, rename = "stringTable")]
    pub strings: Vec<String>,
}

/// A counter.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct RawCounter<'a> {
    /// Its name.
    pub name: Value,
    /// Kind of counter.
    pub category: Value,
    /// What it counts.
    pub description: Value,
    #[serde(borrow)]
    samples: Option<RawTable<'a>>,
    #[serde(borrow)]
    sample_groups: Vec<RawGroup<'a>>,
}

/// Older profiles have groups of values, of which one is used.
#[derive(Deserialize)]
struct RawGroup<'a> {
    #[serde(borrow)]
    samples: RawTable<'a>,
}

impl<'a> RawCounter<'a> {
    /// Its values.
    pub fn samples(&self) -> Option<&RawTable<'a>> {
        let first = self.sample_groups.first().map(|group| &group.samples);
        self.samples.as_ref().or(first)
    }
}

/// Rows, and the place of each column.
#[derive(Deserialize)]
pub struct RawTable<'a> {
    /// Places of columns.
    pub schema: FxHashMap<String, usize>,
    /// Rows, each an array.
    #[serde(borrow)]
    pub data: Vec<&'a RawValue>,
}

impl RawThread<'_> {
    /// Process id.
    pub fn pid(&self) -> Option<u32> {
        id(&self.pid)
    }

    /// Thread id.
    pub fn tid(&self) -> Option<u32> {
        id(&self.tid)
    }

    /// Its name, which the kernel cuts after 15 bytes; that of the process for a main thread.
    pub fn name(&self) -> Option<&str> {
        let is_main = self.pid() == self.tid();
        let name = if is_main { &self.process_name } else { &self.name };
        name.as_str().map(|name| limits::short(name, limits::NAME))
    }

    /// When it began, in milliseconds since the process's start.
    pub fn registered(&self) -> Option<f64> {
        self.register_time.as_f64()
    }
}

/// Ids are numbers, or strings that may have a part after a dot.
fn id(value: &Value) -> Option<u32> {
    let number = value.as_u64().and_then(|id| u32::try_from(id).ok());
    number.or_else(|| value.as_str()?.split('.').next()?.parse().ok())
}

/// A row of `markers`.
#[derive(Debug)]
pub struct RawRow {
    /// Index of the name.
    pub name: usize,
    /// Start in milliseconds.
    pub start: Option<f64>,
    /// End in milliseconds.
    pub end: Option<f64>,
    /// 0: instant, 1: interval, 2: start, 3: end.
    pub phase: u64,
    /// Index of the category.
    pub category: u64,
    /// Payload.
    pub data: Value,
}

impl RawTable<'_> {
    /// Whether rows have starts, ends and phases, as those of Firefox 80 and later do.
    pub fn has_phases(&self) -> bool {
        ["name", "startTime", "phase"]
            .iter()
            .all(|key| self.schema.contains_key(*key))
    }

    /// A row; `None`: not in the form of one.
    pub fn row(&self, raw: &RawValue) -> Option<RawRow> {
        let text = Some(raw.get()).filter(|text| text.len() <= limits::ROW)?;
        let mut cells: Vec<Value> = serde_json::from_str(text).ok()?;
        let place = |key: &str| self.schema.get(key).copied();
        let cell = |key: &str| place(key).and_then(|place| cells.get(place));
        let row = RawRow {
            name: usize::try_from(cell("name")?.as_u64()?).ok()?,
            start: cell("startTime").and_then(Value::as_f64),
            end: cell("endTime").and_then(Value::as_f64),
            phase: cell("phase")?.as_u64()?,
            category: cell("category").and_then(Value::as_u64).unwrap_or(0),
            data: Value::Null,
        };
        let data = place("data").and_then(|place| cells.get_mut(place));
        Some(RawRow {
            data: data.map(Value::take).unwrap_or_default(),
            ..row
        })
    }
}
