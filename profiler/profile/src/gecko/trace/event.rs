//! One event of a trace.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::limits::{self, short};
use base::addr::Timestamp;

/// Nanoseconds per microsecond, the unit of times.
const NS_PER_US: f64 = 1000.0;
/// Latest time in ns: a few years after the boot.
const LATEST: f64 = 1e17;

/// As it is written.
#[derive(Deserialize)]
pub struct RawEvent<'a> {
    #[serde(borrow)]
    ph: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    cat: Cow<'a, str>,
    pid: u32,
    tid: u32,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    id2: Value,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// An interval.
    Complete,
    /// The start of an interval of a thread; the innermost one ends first.
    Begin,
    /// Its end.
    End,
    /// The start of an interval with an id.
    AsyncBegin,
    /// Its end.
    AsyncEnd,
    /// An instant.
    Instant,
    /// Names.
    Metadata,
    /// A link between events.
    Flow,
    /// Counters, samples, memory dumps, objects and others.
    Other,
}

/// An event that becomes a marker, or a part of one.
pub struct Event<'a> {
    /// Kind of event.
    pub phase: Phase,
    /// When it began.
    pub start: Timestamp,
    /// When it ended, if it is complete.
    pub end: Option<Timestamp>,
    /// Process id.
    pub pid: u32,
    /// Thread id, in the process's own namespace if it is sandboxed.
    pub tid: u32,
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its categories, separated by commas.
    pub category: Cow<'a, str>,
    /// What start and end have in common.
    pub id: String,
    /// Its arguments, an object.
    pub args: Option<&'a RawValue>,
}

impl<'a> RawEvent<'a> {
    /// Kind of event.
    pub fn phase(&self) -> Phase {
        match &*self.ph {
            "X" => Phase::Complete,
            "B" => Phase::Begin,
            "E" => Phase::End,
            "b" | "S" => Phase::AsyncBegin,
            "e" | "F" => Phase::AsyncEnd,
            "I" | "i" | "R" | "n" => Phase::Instant,
            "M" => Phase::Metadata,
            "s" | "t" | "f" => Phase::Flow,
            _ => Phase::Other,
        }
    }

    /// When it ended; zero: at no valid time.
    pub fn last(&self) -> Timestamp {
        time(self.ts + self.dur).unwrap_or_default()
    }

    /// The name of a thread, or of a process, whose second id is `None`.
    pub fn metadata_name(&self) -> Option<((u32, Option<u32>), String)> {
        let tid = match &*self.name {
            "thread_name" => Some(self.tid),
            "process_name" => None,
            _ => return None,
        };
        let args: Value = serde_json::from_str(self.args?.get()).ok()?;
        Some(((self.pid, tid), short(args["name"].as_str()?, limits::NAME).to_owned()))
    }

    /// The event; `None`: its times are not times.
    pub fn event(self, phase: Phase) -> Option<Event<'a>> {
        let start = time(self.ts)?;
        let end = (phase == Phase::Complete).then(|| time(self.ts + self.dur));
        let end = end
            .map(|end| end.filter(|end| *end >= start))
            .map_or(Some(None), |end| end.map(Some))?;
        let is_async = matches!(phase, Phase::AsyncBegin | Phase::AsyncEnd);
        let id = if is_async { self.id() } else { String::new() };
        Some(Event {
            phase,
            start,
            end,
            pid: self.pid,
            tid: self.tid,
            name: self.name,
            category: self.cat,
            id,
            args: self.args,
        })
    }

    /// Local ids are those of a process.
    fn id(&self) -> String {
        let text = |id: &Value| short(&id.to_string(), limits::NAME).to_owned();
        match (&self.id2["local"], &self.id2["global"]) {
            (Value::Null, Value::Null) => text(&self.id),
            (Value::Null, global) => format!("global {}", text(global)),
            (local, _) => format!("{} {}", self.pid, text(local)),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked here")]
fn time(us: f64) -> Option<Timestamp> {
    let ns = (us * NS_PER_US).round();
    // NaN fails this comparison.
    (0.0..LATEST).contains(&ns).then_some(Timestamp(ns as u64))
}
