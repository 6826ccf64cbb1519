//! Merges the markers of Firefox's own profiler, called Gecko profiler, into a recording, or those of a trace of Chrome: on
//! the same threads, by process and thread id, and on the same clock. The input, as the browser writes it, is untrusted.

mod ahead;
mod clock;
mod convert;
pub(crate) mod counters;
mod cut;
mod limits;
mod merge;
mod pages;
pub(crate) mod payload;
mod raw;
mod rows;
mod schema;
pub(crate) mod tables;
mod text;
mod threads;
mod trace;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};

use serde::de::IgnoredAny;
use serde_json::Value;

pub use self::ahead::ReadAhead;
use self::merge::Merge;
use self::raw::RawProcess;
pub use self::text::Tool;
use crate::input;
use base::plural::counted;
use fact::{FactSink, Tables};

/// The oldest version of the format whose markers have phases: Firefox 80.
const OLDEST: u64 = 20;
/// The newest version that is known: Firefox 153.
const NEWEST: u64 = 34;
/// Why nothing could be merged.
#[derive(Debug, thiserror::Error)]
pub enum GeckoError {
    /// The input failed, or is too large.
    #[error("the browser's profile could not be read")]
    Io(#[from] std::io::Error),
    /// The input is not JSON.
    #[error("neither a profile of Firefox's profiler nor a trace of Chrome in JSON (--trace-startup-format=json)")]
    Json(#[from] serde_json::Error),
    /// The input has no version.
    #[error(
        "neither a profile of Firefox's profiler (MOZ_PROFILER_SHUTDOWN) nor a trace of Chrome \
         (--trace-startup-format=json)"
    )]
    Unknown,
    /// The input is in the format of the profiler's web page, as ours are.
    #[error(
        "this profile is in the format of the profiler's web page; name the file that Firefox wrote (MOZ_PROFILER_SHUTDOWN)"
    )]
    Processed,
    /// The input is too old.
    #[error("format {0} of Firefox's profiler is too old; markers are read from format {OLDEST} on (Firefox 80)")]
    Old(u64),
    /// The recording has markers of Firefox already.
    #[error("the recording already contains markers of the browser's own profiler")]
    Twice,
    /// No marker belongs to the recording.
    #[error(
        "none of {0}'s {markers} belongs to this recording: other processes, or another time; merge the file of the {0} \
         that was recorded",
        markers = counted(*.1, "marker")
    )]
    Other(Tool, u64),
    /// The input has no marker at all.
    #[error("{0} wrote no markers into it")]
    Empty(Tool),
    /// The input ends before its first marker.
    #[error("it ends before {0}'s first marker")]
    Cut(Tool),
    /// The trace has another clock.
    #[error("the trace's times are of clock {0}; only those of CLOCK_MONOTONIC fit a recording")]
    Clock(String),
}

/// Numbers of markers that were left out, or of parts of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// Of threads that were not recorded.
    pub unrecorded: u64,
    /// Before or after the recording.
    pub outside: u64,
    /// Markers, threads, processes and ids of flows in another form than the format's.
    pub damaged: u64,
    /// Beyond the limit of their number.
    pub beyond: u64,
    /// Ends of events that began before the trace.
    pub unopened: u64,
    /// Screenshots that are too large, or not images; pictures in a trace.
    pub screenshots: u64,
    /// Counters of processes that were not recorded, malformed or beyond the limit of their number.
    pub counters: u64,
    /// Payloads that are too large, together or each, or of too many types; their markers stay.
    pub payloads: u64,
    /// Arguments of events that exceed the number of fields, or were replaced by others of the same key.
    pub arguments: u64,
    /// Backtraces of markers that stay.
    pub stacks: u64,
    /// Links between events of a trace.
    pub flows: u64,
    /// Events of a trace that are not markers, such as counters.
    pub others: u64,
}

/// What was merged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Merged {
    /// The program that wrote the file.
    pub tool: Tool,
    /// Version of the format.
    pub version: u64,
    /// Number of markers.
    pub markers: u64,
    /// Their names.
    pub kinds: BTreeSet<String>,
    /// Those of them that are pictures of windows.
    pub screenshots: u64,
    /// Number of counters.
    pub counters: u64,
    /// Number of threads that they belong to.
    pub threads: u64,
    /// Number of processes in the file.
    pub processes: u64,
    /// What is missing.
    pub left: Left,
    /// The file ends too early.
    pub is_cut: bool,
    /// Times are connected by the wall clock.
    pub is_estimate: bool,
}

/// Merges a profile of Firefox or a trace of Chrome, compressed or not: passes its markers to `sink`, and adds to `tables` what they refer to.
///
/// # Errors
/// The input fails, is not such a profile, or has nothing of this recording.
pub fn merge_gecko(input: &mut dyn Read, tables: &mut Tables, sink: &mut dyn FactSink) -> Result<Merged, GeckoError> {
    if tables.recording.gecko.is_some() {
        return Err(GeckoError::Twice);
    }
    let bytes = input::read_all(input, limits::INPUT).map_err(unreadable)?;
    merge_text(&Text::of(bytes.into())?, tables, sink)
}

/// The same, of a file in memory.
///
/// # Errors
/// As [`merge_gecko`].
pub fn merge_gecko_file(bytes: &[u8], tables: &mut Tables, sink: &mut dyn FactSink) -> Result<Merged, GeckoError> {
    if tables.recording.gecko.is_some() {
        return Err(GeckoError::Twice);
    }
    merge_text(&Text::read(bytes)?, tables, sink)
}

fn merge_text(text: &Text<'_>, tables: &mut Tables, sink: &mut dyn FactSink) -> Result<Merged, GeckoError> {
    let mut merge = Merge::new(tables);
    if trace::is_trace(&text.bytes) {
        merge.merged.is_cut = text.is_cut;
        trace::read(&mut merge, &text.bytes, tables)?;
    } else {
        merge.read(text, tables)?;
    }
    merge.finish(tables, sink)
}

fn unreadable(error: std::io::Error) -> GeckoError {
    match error.kind() {
        ErrorKind::InvalidData => GeckoError::Unknown, // not text
        _ => error.into(),
    }
}

/// A file's JSON, which is complete.
struct Text<'a> {
    bytes: Cow<'a, [u8]>,
    /// The file ended too early.
    is_cut: bool,
}

impl<'a> Text<'a> {
    /// Of a file, compressed or not.
    fn read(bytes: &'a [u8]) -> Result<Self, GeckoError> {
        Self::of(input::in_memory(bytes, limits::INPUT).map_err(unreadable)?)
    }

    fn of(bytes: Cow<'a, [u8]>) -> Result<Self, GeckoError> {
        let Err(error) = serde_json::from_slice::<IgnoredAny>(&bytes) else {
            return Ok(Self { bytes, is_cut: false });
        };
        let closed = error.is_eof().then(|| cut::closed(&bytes)).flatten();
        Ok(Self {
            bytes: closed.ok_or(error)?.into(),
            is_cut: true,
        })
    }
}

impl Merge {
    /// Reads a profile of Firefox.
    fn read(&mut self, text: &Text<'_>, tables: &Tables) -> Result<(), GeckoError> {
        self.merged.is_cut = text.is_cut;
        let top: RawProcess<'_> = serde_json::from_slice(&text.bytes)?;
        self.merged.version = version(&top.meta())?;
        self.all(&top, tables);
        Ok(())
    }
}

fn version(meta: &Value) -> Result<u64, GeckoError> {
    if !meta["preprocessedProfileVersion"].is_null() {
        return Err(GeckoError::Processed);
    }
    match meta["version"].as_u64() {
        None => Err(GeckoError::Unknown),
        Some(old) if old < OLDEST => Err(GeckoError::Old(old)),
        Some(version) => Ok(version),
    }
}
