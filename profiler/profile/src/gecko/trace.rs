//! Traces of Chrome and programs built on it, in JSON (`chromium --trace-startup --trace-startup-format=json`): the second
//! reader of markers. Times are microseconds of `CLOCK_MONOTONIC`. The input is untrusted.

mod event;
mod pairs;
mod payload;
mod sandboxed;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::event::{Event, Phase, RawEvent};
use self::pairs::Pairs;
use self::sandboxed::Sandboxed;
use super::merge::Merge;
use super::text::Tool;
use super::{GeckoError, limits};
use base::addr::Timestamp;
use fact::{Tables, ThreadId};

/// The clock of traces on Linux.
const CLOCK: &str = "LINUX_CLOCK_MONOTONIC";

/// A trace that is an object; others are only its events.
#[derive(Deserialize)]
struct RawTrace<'a> {
    #[serde(borrow, rename = "traceEvents")]
    events: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
}

/// Whether the file is a trace, not a profile of Firefox.
pub fn is_trace(text: &[u8]) -> bool {
    let start = text.trim_ascii_start();
    let begins = |keys: &[&str]| keys.iter().any(|key| start.starts_with(key.as_bytes()));
    // A trace may have other keys before its events, which takes a look at all of them.
    begins(&["[", "{\"traceEvents\""]) || (!begins(&["{\"libs\":", "{\"meta\":"]) && has_events(start))
}

/// Whether it is an object with events.
fn has_events(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Keys {
        #[serde(rename = "traceEvents")]
        _events: serde::de::IgnoredAny,
    }
    text.starts_with(b"{") && serde_json::from_slice::<Keys>(text).is_ok()
}

/// Reads the events.
pub fn read(merge: &mut Merge, text: &[u8], tables: &Tables) -> Result<(), GeckoError> {
    merge.use_tool(Tool::Chrome);
    let RawTrace { events, metadata } = if text.trim_ascii_start().starts_with(b"[") {
        RawTrace {
            events: serde_json::from_slice(text)?,
            metadata: None,
        }
    } else {
        serde_json::from_slice(text)?
    };
    let metadata = metadata.map(RawValue::get).filter(|text| text.len() <= limits::META);
    let metadata: Value = metadata
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    if let Some(clock) = metadata["clock-domain"].as_str().filter(|clock| *clock != CLOCK) {
        return Err(GeckoError::Clock(limits::short(clock, limits::NAME).to_owned()));
    }
    merge.merged.left.beyond += events.len().saturating_sub(limits::MARKERS) as u64;
    let mut reader = Reader::default();
    for raw in events.iter().take(limits::MARKERS) {
        reader.event(raw, merge);
    }
    reader.finish(merge, tables);
    Ok(())
}

/// Events by thread.
#[derive(Default)]
struct Reader<'a> {
    events: Vec<Event<'a>>,
    names: FxHashMap<(u32, u32), String>,
    process_names: FxHashMap<u32, String>,
    processes: FxHashSet<u32>,
    /// The latest time of any.
    last: Timestamp,
}

impl<'a> Reader<'a> {
    fn event(&mut self, raw: &'a RawValue, merge: &mut Merge) {
        let left = &mut merge.merged.left;
        let parsed = Some(raw.get()).filter(|text| text.len() <= limits::ROW);
        let Some(raw) = parsed.and_then(|text| serde_json::from_str::<RawEvent<'a>>(text).ok()) else {
            left.damaged += 1;
            return;
        };
        self.last = self.last.max(raw.last());
        match raw.phase() {
            Phase::Flow => left.flows += 1,
            Phase::Other => left.others += 1,
            Phase::Metadata => {
                let has_room = self.names.len().max(self.process_names.len()) < limits::THREADS;
                match raw.metadata_name().filter(|_| has_room) {
                    Some(((pid, Some(tid)), name)) => drop(self.names.insert((pid, tid), name)),
                    Some(((pid, None), name)) => drop(self.process_names.insert(pid, name)),
                    None => {}
                }
            }
            phase => match raw.event(phase) {
                Some(event) => {
                    self.processes.insert(event.pid);
                    self.events.push(event);
                }
                None => left.damaged += 1,
            },
        }
    }

    fn finish(mut self, merge: &mut Merge, tables: &Tables) {
        let recording = &tables.recording;
        merge.merged.processes = self.processes.len() as u64;
        self.events.sort_by_key(|event| event.start);
        let mut sandboxed = Sandboxed::new(tables, &self.events, &self.names);
        let mut known: FxHashMap<(u32, u32), Option<ThreadId>> = FxHashMap::default();
        let mut pairs = Pairs::default();
        for event in self.events {
            let thread = *known.entry((event.pid, event.tid)).or_insert_with(|| {
                let found = merge
                    .threads
                    .find(event.pid, event.tid, event.start.max(recording.start));
                let found = found.or_else(|| sandboxed.find(event.pid, event.tid));
                let of_process = found.and_then(|id| {
                    let is_main = tables.threads.get(id.index())?.is_main;
                    self.process_names.get(&event.pid).filter(|_| is_main)
                });
                let name = of_process.or_else(|| self.names.get(&(event.pid, event.tid)));
                merge.names.extend(found.map(|id| (id, name.cloned())));
                found
            });
            match thread {
                Some(thread) => pairs.event(event, thread, (merge, recording)),
                None => merge.merged.left.unrecorded += 1,
            }
        }
        pairs.finish(self.last, (merge, recording));
        // Others have no marker.
        let with_markers: FxHashSet<ThreadId> = merge.marks.iter().map(|mark| mark.thread).collect();
        merge.names.retain(|(id, _)| with_markers.contains(id));
    }
}
