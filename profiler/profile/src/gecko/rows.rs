//! A thread's rows become marks: starts find their ends, as in the front end.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::convert::Converter;
use super::limits;
use super::raw::{RawRow, RawThread};
use super::threads::Threads;
use crate::marker::SCREENSHOT;
use base::addr::Timestamp;
use fact::{GeckoMark, Mark, MarkKind, Recording, ThreadId};

/// One thread while its markers are read.
pub struct ThreadRows<'a, 'c> {
    pub raw: &'a RawThread<'a>,
    pub strings: &'a [String],
    /// Our number of each category of the process.
    pub categories: &'a [u16],
    pub threads: &'a Threads,
    pub recording: &'a Recording,
    pub convert: Converter<'c>,
    pub marks: &'a mut Vec<Mark>,
    /// Number of those that had not ended.
    pub unended: &'a mut usize,
}

/// When a mark began and ended.
struct Times {
    start: Timestamp,
    end: Option<Timestamp>,
}

impl ThreadRows<'_, '_> {
    /// Reads all rows. Returns a recorded thread that they belong to.
    pub fn read(mut self) -> Option<ThreadId> {
        let Some((pid, tid)) = self.raw.pid().zip(self.raw.tid()) else {
            self.convert.left.damaged += self.raw.markers.data.len() as u64;
            return None;
        };
        let registered = self.raw.registered().and_then(|time| self.convert.clock.at(time));
        let registered = registered.unwrap_or(self.recording.start);
        let Some(thread) = self.threads.find(pid, tid, registered) else {
            self.convert.left.unrecorded += self.raw.markers.data.len() as u64;
            return None;
        };
        let mut names: FxHashMap<usize, Arc<str>> = FxHashMap::default();
        let mut open: FxHashMap<usize, Vec<(Timestamp, RawRow)>> = FxHashMap::default();
        for raw in &self.raw.markers.data {
            let row = self.raw.markers.row(raw);
            let with_name = row.and_then(|row| {
                let text = self.strings.get(row.name)?;
                let name = names
                    .entry(row.name)
                    .or_insert_with(|| limits::short(text, limits::TEXT).into());
                Some((row, Arc::clone(name)))
            });
            let at = |time: Option<f64>| self.convert.clock.at(time?);
            let Some((mut row, name)) = with_name else {
                self.convert.left.damaged += 1;
                continue;
            };
            let times = match (row.phase, at(row.start), at(row.end)) {
                (0, Some(start), _) => Some(Times { start, end: None }),
                (1, Some(start), Some(end)) if start <= end => Some(Times { start, end: Some(end) }),
                (2, Some(start), _) => {
                    open.entry(row.name).or_default().push((start, row));
                    continue;
                }
                (3, _, Some(end)) => Some(match open.get_mut(&row.name).and_then(Vec::pop) {
                    Some((start, first)) => {
                        row.data = joined(first.data, row.data);
                        Times {
                            start: start.min(end),
                            end: Some(end),
                        }
                    }
                    // It began before Firefox's profiler did.
                    None => Times {
                        start: registered.min(end),
                        end: Some(end),
                    },
                }),
                _ => None,
            };
            match times {
                Some(times) => self.mark(thread, name, row, &times),
                None => self.convert.left.damaged += 1,
            }
        }
        // These had not ended at the end of Firefox's profiler.
        let mut rest: Vec<_> = open.into_values().flatten().collect();
        rest.sort_by_key(|(start, row)| (*start, row.name));
        for (start, row) in rest {
            let Some(name) = names.get(&row.name).cloned() else {
                continue;
            };
            let end = Some(self.recording.end.max(start));
            let before = self.marks.len();
            self.mark(thread, name, row, &Times { start, end });
            *self.unended += self.marks.len() - before;
        }
        Some(thread)
    }

    fn mark(&mut self, thread: ThreadId, name: Arc<str>, row: RawRow, times: &Times) {
        let (start, end) = (times.start, times.end);
        // Times before the start have become the start.
        let is_before = end.unwrap_or(start) <= self.recording.start;
        if is_before || start > self.recording.end {
            self.convert.left.outside += 1;
            return;
        }
        if self.marks.len() >= limits::MARKERS {
            self.convert.left.beyond += 1;
            return;
        }
        let Some(payload) = self.convert.payload(row.data, self.strings) else {
            return;
        };
        if &*name == SCREENSHOT && payload.image.is_none() {
            self.convert.left.screenshots += 1; // the front end expects one
            return;
        }
        let category = usize::try_from(row.category).ok();
        let category = category.and_then(|category| self.categories.get(category));
        let mark = GeckoMark {
            name,
            category: category.copied().unwrap_or_default(),
            data: payload.data,
            times: payload.times,
            image: payload.image,
            flows: payload.flows,
        };
        self.marks.push(Mark {
            start,
            end,
            thread,
            stack: None,
            kind: MarkKind::Gecko(Arc::new(mark)),
        });
    }
}

/// The payload of a start with that of its end, which is the later one.
fn joined(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Object(mut first), Value::Object(second)) => {
            first.extend(second);
            Value::Object(first)
        }
        (first, Value::Null) => first,
        (_, second) => second,
    }
}
