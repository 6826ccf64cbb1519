//! Reads a profile of Firefox while another thread still reads the recording that it belongs to: its threads are assumed to be
//! recorded, and its markers to be before the recording's end. If that turns out to be wrong, the profile is read again.

use std::cell::RefCell;

use super::merge::Merge;
use super::threads::{Recorded, Threads};
use super::{GeckoError, Merged, Text, trace};
use base::addr::Timestamp;
use fact::{FactSink, Mark, ProcessId, Recording, Tables, ThreadId};

/// The recording's end until it is known.
const END: Timestamp = Timestamp(u64::MAX);

/// A profile of Firefox that was read ahead.
pub struct ReadAhead {
    merge: Merge,
    /// The start that was assumed, on both clocks.
    start: (Timestamp, u64),
}

impl ReadAhead {
    /// Reads the profile of a recording with this start. `None`: it is not one of Firefox, or has to be read with the recording.
    pub fn new(bytes: &[u8], recording: &Recording) -> Option<Self> {
        let text = Text::read(bytes).ok()?;
        if trace::is_trace(&text.bytes) {
            return None; // threads of sandboxed processes are found by what else was recorded
        }
        let start = (recording.start, recording.start_unix_ms);
        let assumed = Tables {
            recording: Recording {
                start: recording.start,
                start_unix_ms: recording.start_unix_ms,
                end: END,
                ..Recording::default()
            },
            ..Tables::default()
        };
        let mut merge = Merge::for_threads(Threads::Assumed(RefCell::default()));
        merge.read(&text, &assumed).ok()?;
        let is_at_end = |mark: &&Mark| mark.end == Some(END);
        if merge.marks.iter().filter(is_at_end).count() != merge.unended {
            return None; // hostile times
        }
        merge.marks.sort_by_key(|mark| mark.start);
        Some(Self { merge, start })
    }

    /// As [`super::merge_gecko`] of the same bytes; `None`: an assumption was wrong, and nothing was merged.
    pub fn merge(self, tables: &mut Tables, sink: &mut dyn FactSink) -> Option<Result<Merged, GeckoError>> {
        let Self { mut merge, start } = self;
        let is_same_start = start == (tables.recording.start, tables.recording.start_unix_ms);
        if !is_same_start || tables.recording.gecko.is_some() {
            return None;
        }
        settle(&mut merge, tables)?;
        Some(merge.finish(tables, sink))
    }
}

/// Replaces what was assumed by what was recorded; `None`: it is something else.
fn settle(merge: &mut Merge, tables: &Tables) -> Option<()> {
    let known = Threads::Known(Recorded::new(tables));
    let Threads::Assumed(searches) = std::mem::replace(&mut merge.threads, known) else {
        return None;
    };
    let find = |(pid, tid, time)| merge.threads.find(pid, tid, time);
    let found: Option<Vec<ThreadId>> = searches.into_inner().into_iter().map(find).collect();
    let found = found?;
    let recorded = |assumed: ThreadId| found.get(assumed.index()).copied();
    let Recording { start, end, .. } = tables.recording;
    if end <= start {
        return None;
    }
    for mark in &mut merge.marks {
        mark.thread = recorded(mark.thread)?;
        if mark.start > end {
            return None;
        }
        if mark.end == Some(END) {
            mark.end = Some(end.max(mark.start));
        }
    }
    for (thread, _) in &mut merge.names {
        *thread = recorded(*thread)?;
    }
    for counter in &mut merge.gecko.counters {
        if counter.values.last().is_some_and(|(at, ..)| *at > end) {
            return None;
        }
        let ProcessId(assumed) = counter.process;
        counter.process = merge.threads.process_of(recorded(ThreadId(assumed))?, tables)?;
    }
    Some(())
}
