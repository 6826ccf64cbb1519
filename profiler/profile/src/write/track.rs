//! Synthetic tracks: their samples are items that took time or moved bytes, weighted by that.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, json};

use super::skeleton::ThreadRow;
use crate::marker::{PHASE_INSTANT, PHASE_INTERVAL};
use crate::shared::categories::Category;
use crate::shared::columns::{Repeat, column, deltas, object};
use crate::units::{milliseconds, ms};
use base::addr::Timestamp;

/// Shortest gap that is drawn, in ns.
const SHORTEST_GAP: u64 = 20_000;
/// Maximum number of gaps that a track can show: ten per pixel.
const GAPS: u64 = 20_000;

/// How a track weighs its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Time in ns.
    Time,
    /// Bytes.
    Bytes,
}

impl Weight {
    /// A weight in the front end's unit.
    fn value(self, sum: u64) -> Value {
        match self {
            Self::Time => json!(milliseconds(std::time::Duration::from_nanos(sum))),
            Self::Bytes => json!(sum),
        }
    }

    /// The weight in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Bytes => "bytes",
        }
    }

    /// `WeightType`
    fn unit(self) -> &'static str {
        match self {
            Self::Time => "tracing-ms",
            Self::Bytes => "bytes",
        }
    }
}

/// The row of `threads`, built from the row of a real thread, with the names of the process and of the thread.
pub fn row(of_thread: &Map<String, Value>, pid: &str, (process, name): (&str, &str)) -> Map<String, Value> {
    let mut row = of_thread.clone();
    for (key, value) in [
        ("processName", json!(process)),
        ("name", json!(name)),
        ("tid", json!(pid)),
        ("pid", json!(pid)),
        ("isMainThread", json!(true)),
        ("showMarkersInTimeline", json!(true)),
        ("processStartupTime", json!(0.0)),
        ("processShutdownTime", Value::Null),
        ("registerTime", json!(0.0)),
        ("unregisterTime", Value::Null),
    ] {
        row.insert(key.into(), value);
    }
    row
}

/// A counter below a track, drawn as a line. The front end divides a value by the milliseconds since the previous one.
pub struct Counter<'a> {
    /// Its identifier, and a group of counters.
    pub name: &'a str,
    pub category: &'a str,
    pub description: String,
    /// The track's process id, and its place in `threads`.
    pub pid: String,
    pub thread: usize,
    /// The unit of the axis, and of a value that the mouse is on.
    pub units: (&'a str, &'a str),
    pub color: &'a str,
    /// Its place among the counters of the track.
    pub weight: u32,
    pub label: &'a str,
    /// Milliseconds since the value before, and values.
    pub columns: (Vec<f64>, Vec<f64>),
}

impl Counter<'_> {
    /// The row of `counters`.
    pub fn row(self) -> Value {
        let (deltas, values) = self.columns;
        json!({
            "name": self.name,
            "category": self.category,
            "description": self.description,
            "pid": self.pid,
            "mainThreadIndex": self.thread,
            "samples": {
                "length": values.len(),
                "timeDeltas": deltas,
                "number": vec![0; values.len()],
                "count": values,
            },
            "display": {
                "graphType": "line-rate",
                "unit": self.units.0,
                "color": self.color,
                "markerSchemaLocation": null,
                "sortWeight": self.weight,
                "label": self.label,
                "tooltipRows": [
                    {"type": "value", "source": "rate", "format": {"unit": self.units.1}, "label": self.label},
                ],
            },
        })
    }
}

/// An item with a weight.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// Start time.
    pub start: Timestamp,
    /// End time.
    pub end: Timestamp,
    /// Row of the stack table.
    pub stack: Option<u32>,
    /// Weight in ns or bytes.
    pub weight: u64,
}

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackRow {
    time: Timestamp,
    stack: Option<u32>,
    weight: u64,
}

/// A sample at the end of each item. The front end draws a sample up to half way to its neighbours
/// and at full height: so a long item has a sample without weight at its start, and there is one
/// without a stack on either side of a gap.
pub fn lay_out(mut items: Vec<Item>, (zero, end): (Timestamp, Timestamp)) -> Vec<TrackRow> {
    let gap = (end.0.saturating_sub(zero.0) / GAPS).max(SHORTEST_GAP);
    items.retain(|item| item.weight > 0);
    items.sort_by_key(|item| (item.end, item.start));
    let empty = |time| TrackRow {
        time: Timestamp(time),
        stack: None,
        weight: 0,
    };
    let mut rows = Vec::with_capacity(items.len());
    let mut last: Option<u64> = None;
    for item in items {
        let start = item.start.0.max(last.unwrap_or(zero.0));
        if last.is_none_or(|last| start - last > gap) {
            rows.extend(last.map(|last| empty(last + gap / 2)));
            rows.push(empty(start.saturating_sub(gap / 2).max(zero.0)));
        }
        if item.end.0.saturating_sub(start) > gap {
            let begin = Timestamp(start);
            rows.push(TrackRow {
                time: begin,
                stack: item.stack,
                weight: 0,
            });
        }
        let time = Timestamp(item.end.0.max(start));
        rows.push(TrackRow {
            time,
            stack: item.stack,
            weight: item.weight,
        });
        last = Some(time.0);
    }
    rows.extend(last.map(|last| empty(last.saturating_add(gap / 2).min(end.0.max(last)))));
    rows
}

/// A marker of a track.
pub struct TrackMarker<T> {
    /// What its payload is made of.
    pub fact: T,
    /// Index of its name in the string array.
    pub name: u32,
    /// Start time.
    pub start: Timestamp,
    /// End time; `None`: it is a moment.
    pub end: Option<Timestamp>,
}

/// A row of `threads` with its tables.
pub struct TrackThread<'a, T, F> {
    /// The row without tables.
    pub row: &'a ThreadRow,
    /// The samples.
    pub samples: Cow<'a, [TrackRow]>,
    /// The weight of the samples.
    pub weight: Weight,
    /// The markers: starts ascending.
    pub markers: Vec<TrackMarker<T>>,
    /// The category of the markers.
    pub category: Category,
    /// The payload of a marker.
    pub payload: F,
    /// What the track shows, for the reader.
    pub shows: Value,
    /// The profile's time 0.
    pub zero: Timestamp,
}

impl<T, P: Serialize, F: Fn(&T) -> P> Serialize for TrackThread<'_, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut thread = serializer.serialize_map(None)?;
        for (key, value) in self.row.fields() {
            thread.serialize_entry(&key, &value)?;
        }
        thread.serialize_entry("samples", &self.samples_table())?;
        thread.serialize_entry("markers", &self.markers_table())?;
        thread.serialize_entry("ngmiCompanion", &self.shows)?;
        thread.end()
    }
}

impl<T, P: Serialize, F: Fn(&T) -> P> TrackThread<'_, T, F> {
    fn markers_table(&self) -> impl Serialize {
        let (rows, zero) = (&*self.markers, self.zero);
        object! {
            "length": rows.len(),
            "category": Repeat(self.category as u8, rows.len()),
            "data": column(rows, |row| (self.payload)(&row.fact)),
            "name": column(rows, |row| row.name),
            "startTime": column(rows, move |row| ms(row.start, zero)),
            "endTime": column(rows, move |row| row.end.map(|end| ms(end, zero))),
            "phase": column(rows, |row| row.end.map_or(PHASE_INSTANT, |_| PHASE_INTERVAL)),
        }
    }

    fn samples_table(&self) -> impl Serialize {
        let rows = &*self.samples;
        object! {
            "length": rows.len(),
            "weightType": self.weight.unit(),
            "stack": column(rows, |row| row.stack),
            "timeDeltas": deltas(rows.iter().map(|row| row.time), self.zero),
            "weight": column(rows, |row| self.weight.value(row.weight)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: (Timestamp, Timestamp) = (Timestamp(1_000_000), Timestamp(2_000_000));

    fn item(start: u64, end: u64) -> Item {
        Item {
            start: Timestamp(start),
            end: Timestamp(end),
            stack: Some(0),
            weight: end - start,
        }
    }

    #[test]
    fn gaps_are_empty_and_long_faults_have_two_ends() {
        let rows = lay_out(vec![item(1_000_100, 1_000_300), item(1_500_000, 1_600_000)], TIMES);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (row.time.0 - TIMES.0.0, row.stack.is_some(), row.weight))
            .collect();
        let expected = [
            (0, false, 0),
            (300, true, 200),
            (10_300, false, 0),
            (490_000, false, 0),
            (500_000, true, 0),
            (600_000, true, 100_000),
            (610_000, false, 0),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn faults_of_threads_at_the_same_time_stay_in_order() {
        let items = vec![
            item(1_100_000, 1_200_000),
            item(1_000_000, 1_300_000),
            item(1_900_000, 2_100_000),
        ];
        let rows = lay_out(items, TIMES);
        assert!(rows.is_sorted_by_key(|row| row.time));
        assert_eq!(rows.iter().map(|row| row.weight).sum::<u64>(), 600_000);
    }
}
