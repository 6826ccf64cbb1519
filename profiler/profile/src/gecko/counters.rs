//! Counters of Firefox's profiler: memory, power, bandwidth. CPU time is left out, since ngmi's own is exact.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::clock::Clock;
use super::limits::{self, short};
use super::raw::{RawCounter, RawTable};
use crate::units::milliseconds;
use base::addr::Timestamp;
use fact::gecko::{GeckoCounter, GeckoValue};
use fact::{ProcessId, Recording, Tables};

/// Firefox's counter of CPU time.
const CPU: &str = "processCPU";
/// Largest amount that JSON readers keep exactly.
const LARGEST: f64 = 9_007_199_254_740_991.0;

/// Not in the form of a counter.
pub struct Malformed;

/// Reads a counter; `None`: it has no value during the recording, or is not needed.
pub fn read(
    raw: &RawValue,
    process: ProcessId,
    clock: &Clock,
    recording: &Recording,
) -> Result<Option<GeckoCounter>, Malformed> {
    let raw: RawCounter<'_> = serde_json::from_str(raw.get()).map_err(|_| Malformed)?;
    let name = raw.name.as_str().ok_or(Malformed)?;
    if name == CPU {
        return Ok(None);
    }
    let values = values(raw.samples().ok_or(Malformed)?, clock, recording)?;
    let text = |value: &Value| short(value.as_str().unwrap_or_default(), limits::TEXT).to_owned();
    Ok((!values.is_empty()).then(|| GeckoCounter {
        process,
        name: short(name, limits::NAME).to_owned(),
        category: short(&text(&raw.category), limits::NAME).to_owned(),
        description: text(&raw.description),
        values: thinned(&values),
    }))
}

fn values(table: &RawTable<'_>, clock: &Clock, recording: &Recording) -> Result<Vec<GeckoValue>, Malformed> {
    let place = |key: &str| table.schema.get(key).copied();
    let (time, count) = place("time").zip(place("count")).ok_or(Malformed)?;
    let mut values: Vec<GeckoValue> = Vec::new();
    for raw in &table.data {
        let row = Some(raw.get()).filter(|text| text.len() <= limits::NAME);
        let row: Vec<Option<f64>> = row.and_then(|text| serde_json::from_str(text).ok()).ok_or(Malformed)?;
        let cell = |place: usize| row.get(place).copied().flatten();
        let at = cell(time).and_then(|ms| clock.at(ms)).ok_or(Malformed)?;
        let count = cell(count).filter(|count| count.abs() <= LARGEST).ok_or(Malformed)?;
        let number = place("number").and_then(cell).unwrap_or_default();
        if values.last().is_some_and(|(last, ..)| *last > at) || !(0.0..=LARGEST).contains(&number) {
            return Err(Malformed);
        }
        // Times before the start have become the start.
        if at > recording.start && at <= recording.end {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
            values.push((at, count.round() as i64, number as u64));
        }
    }
    Ok(values)
}

/// At most as many as are drawn: each stands for several, with their sum.
fn thinned(values: &[GeckoValue]) -> Vec<GeckoValue> {
    let size = values.len().div_ceil(limits::VALUES).max(1);
    let sum = |group: &[GeckoValue]| {
        let start = (Timestamp::default(), 0, 0);
        group.iter().fold(start, |(_, count, number): GeckoValue, more| {
            (more.0, count.saturating_add(more.1), number.saturating_add(more.2))
        })
    };
    values.chunks(size).map(sum).collect()
}

/// Rows of `counters`; `main` finds the row of a process's main thread, and its pid.
pub fn rows(tables: &Tables, zero: Timestamp, main: impl Fn(ProcessId) -> Option<(usize, Value)>) -> Vec<Value> {
    let counters = tables.recording.gecko.iter().flat_map(|gecko| &gecko.counters);
    let row = |counter: &GeckoCounter| {
        let (index, pid) = main(counter.process)?;
        let mut last = zero;
        let deltas = counter.values.iter().map(|(time, ..)| {
            let delta = time.since(last);
            last = last.max(*time);
            milliseconds(delta)
        });
        let deltas: Vec<f64> = deltas.collect();
        let counts: Vec<i64> = counter.values.iter().map(|(_, count, _)| *count).collect();
        let numbers: Vec<u64> = counter.values.iter().map(|(.., number)| *number).collect();
        Some(json!({
            "name": counter.name,
            "category": counter.category,
            "description": counter.description,
            "pid": pid,
            "mainThreadIndex": index,
            "samples": {"length": counts.len(), "timeDeltas": deltas, "number": numbers, "count": counts},
            "display": display(counter),
        }))
    };
    counters.filter_map(row).collect()
}

/// How the front end draws it: the kinds that it knows as it does for Firefox.
fn display(counter: &GeckoCounter) -> Value {
    let row = |source: &str, format: Value, label: &str| json!({"type": "value", "source": source, "format": format, "label": label});
    let (bytes, number) = (json!({"unit": "bytes"}), json!({"unit": "number"}));
    let power = json!({"unit": "number", "scale": "power"});
    let (graph, unit, color, weight, label, rows) = match counter.category.as_str() {
        "Memory" => (
            "line-accumulated",
            "bytes",
            "orange",
            20,
            "Memory",
            vec![
                row("accumulated", bytes.clone(), "allocated, relative to the start"),
                row("count-range", bytes, "range in the graph"),
                row("sample-number", number, "allocations and deallocations"),
            ],
        ),
        "Bandwidth" => (
            "line-rate",
            "bytes",
            "blue",
            10,
            "Bandwidth",
            vec![
                row("rate", json!({"unit": "bytes-per-second"}), "transfer rate"),
                row("accumulated", bytes, "transferred until then"),
            ],
        ),
        "power" => (
            "line-rate",
            "pWh",
            "grey",
            30,
            &*counter.name,
            vec![row("count", power, "power")],
        ),
        _ => (
            "line-rate",
            "",
            "grey",
            50,
            &*counter.name,
            vec![row("count", number, "value")],
        ),
    };
    json!({
        "graphType": graph,
        "unit": unit,
        "color": color,
        "markerSchemaLocation": (counter.category == "Memory").then_some("timeline-memory"),
        "sortWeight": weight,
        "label": label,
        "tooltipRows": rows,
    })
}
