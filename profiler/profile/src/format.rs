//! The parts of a profile that are read back, as deserialized from JSON and unchecked.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exact::cause::RawCause;
use crate::exact::request::RawRequest;
use crate::exact::wait::RawWait;

/// The version of the processed profile format that is written and read: threads share tables (60
/// and later), stacks refer to their callers by distance (66), and frames refer to their libraries
/// (70).
pub const FORMAT_VERSION: u32 = 70;

/// A reference to a row: missing, −1 or an index.
pub type Index = Option<i64>;

/// A whole profile.
#[derive(Debug, Deserialize)]
pub struct RawProfile<'a> {
    /// Metadata.
    pub meta: RawMeta,
    /// Libraries.
    pub libs: Vec<RawLib>,
    /// Counters.
    #[serde(default)]
    pub counters: Vec<RawCounter>,
    /// Tables shared by all threads.
    pub shared: RawShared,
    /// Threads with their own tables.
    #[serde(borrow)]
    pub threads: Vec<RawThread<'a>>,
    /// The `ngmi` section.
    pub ngmi: Option<RawExact>,
}

/// `meta`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawMeta {
    /// Sampling interval in ms.
    pub interval: f64,
    /// Categories.
    pub categories: Vec<RawCategory>,
    /// Marker schemas.
    pub marker_schema: Vec<RawSchema>,
    /// Indices of visible threads.
    #[serde(default)]
    pub initial_visible_threads: Vec<i64>,
    /// Indices of selected threads.
    #[serde(default)]
    pub initial_selected_threads: Vec<i64>,
}

/// A category.
#[derive(Debug, Deserialize)]
pub struct RawCategory {
    /// Its colour.
    pub color: String,
    /// Names of its subcategories.
    pub subcategories: Vec<String>,
}

/// A marker schema.
#[derive(Debug, Deserialize)]
pub struct RawSchema {
    /// The `type` of its payloads.
    pub name: String,
    /// The fields that the front end shows.
    #[serde(default)]
    pub fields: Vec<RawField>,
}

/// A field of a payload.
#[derive(Debug, Deserialize)]
pub struct RawField {
    /// Its key.
    pub key: String,
    /// Display format: a word, or an object for tables.
    pub format: Value,
}

/// A library.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawLib {
    /// Display name.
    pub name: String,
    /// Breakpad id for symbol servers.
    pub breakpad_id: String,
}

/// A counter.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawCounter {
    /// Its name.
    pub name: String,
    /// Index of the first thread of its process.
    pub main_thread_index: i64,
    /// Its values.
    pub samples: RawCounterSamples,
    /// Display options.
    pub display: Option<Value>,
}

/// A counter's values.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawCounterSamples {
    /// Number of rows.
    pub length: usize,
    /// Time since the previous row, in ms.
    pub time_deltas: Vec<f64>,
    /// Values.
    pub count: Vec<f64>,
}

/// `shared`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawShared {
    /// Stacks.
    pub stack_table: RawStacks,
    /// Frames.
    pub frame_table: RawFrames,
    /// Functions.
    pub func_table: RawFuncs,
    /// Resources (groups of functions).
    pub resource_table: RawResources,
    /// Symbols.
    pub native_symbols: RawSymbols,
    /// Source files.
    pub sources: RawSources,
    /// Strings.
    pub string_array: Vec<String>,
}

/// `stackTable`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawStacks {
    /// Number of rows.
    pub length: usize,
    /// Row of the frame table.
    pub frame: Vec<Index>,
    /// Distance in rows to the caller; 0: outermost.
    pub prefix_offset: Vec<Index>,
}

/// `frameTable`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawFrames {
    /// Number of rows.
    pub length: usize,
    /// Relative address.
    pub address: Vec<Index>,
    /// Row of `libs`.
    pub lib: Vec<Index>,
    /// Inline depth; 0: not inlined.
    pub inline_depth: Vec<Index>,
    /// Category.
    pub category: Vec<Index>,
    /// Subcategory.
    pub subcategory: Vec<Index>,
    /// Row of the function table.
    pub func: Vec<Index>,
    /// Row of the symbol table.
    pub native_symbol: Vec<Index>,
    /// Line number.
    pub line: Vec<Index>,
}

/// `funcTable`
#[derive(Debug, Deserialize)]
pub struct RawFuncs {
    /// Number of rows.
    pub length: usize,
    /// Index of the name.
    pub name: Vec<Index>,
    /// Row of the resource table.
    pub resource: Vec<Index>,
    /// Row of the source table.
    pub source: Vec<Index>,
}

/// `resourceTable`
#[derive(Debug, Deserialize)]
pub struct RawResources {
    /// Number of rows.
    pub length: usize,
    /// Index of the name.
    pub name: Vec<Index>,
}

/// `nativeSymbols`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawSymbols {
    /// Number of rows.
    pub length: usize,
    /// Row of `libs`.
    pub lib_index: Vec<Index>,
    /// Relative address.
    pub address: Vec<Index>,
    /// Index of the name.
    pub name: Vec<Index>,
    /// Size in bytes.
    pub function_size: Vec<Index>,
}

/// `sources`
#[derive(Debug, Deserialize)]
pub struct RawSources {
    /// Number of rows.
    pub length: usize,
    /// Index of the file name.
    pub filename: Vec<Index>,
    /// The source text.
    #[serde(default)]
    pub content: Vec<Option<String>>,
}

/// A thread.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawThread<'a> {
    /// Its name.
    pub name: String,
    /// Samples.
    pub samples: RawSamples,
    /// Markers.
    #[serde(borrow)]
    pub markers: RawMarkers<'a>,
    /// The thread's `ngmi` section.
    pub ngmi: Option<RawThreadExact>,
    /// It is a synthetic thread: its samples are the page faults of its process, or a device's
    /// requests.
    #[serde(rename = "ngmiCompanion")]
    pub companion: Option<IgnoredAny>,
    /// Its samples are a difference (`ngmi diff --profile`).
    #[serde(default, rename = "ngmiDifference")]
    pub difference: Option<IgnoredAny>,
}

/// `samples`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawSamples {
    /// Number of rows.
    pub length: usize,
    /// Row of the stack table.
    pub stack: Vec<Index>,
    /// Time since the previous row, in ms.
    pub time_deltas: Vec<f64>,
    /// Number of samples that it represents, or ms; for a companion track: ms or bytes.
    pub weight: Option<Vec<f64>>,
    /// `samples`, `tracing-ms`, `bytes`
    pub weight_type: String,
    /// CPU time since the previous row, in ns; absent for companion tracks.
    #[serde(rename = "threadCPUDelta", default)]
    pub thread_cpu_delta: Vec<Option<u64>>,
}

/// `markers`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawMarkers<'a> {
    /// Number of rows.
    pub length: usize,
    /// Category.
    pub category: Vec<Index>,
    /// Payload.
    #[serde(borrow)]
    pub data: Vec<&'a RawValue>,
    /// Index of the name.
    pub name: Vec<Index>,
    /// Start in ms.
    pub start_time: Vec<Option<f64>>,
    /// End in ms.
    pub end_time: Vec<Option<f64>>,
    /// 0: instant, 1: interval.
    pub phase: Vec<u8>,
}

/// A thread's `ngmi` section.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawThreadExact {
    /// Number of the thread in the tables.
    pub thread: u32,
    /// The first row of the samples is not a sample.
    pub lead: bool,
    /// The last row of the samples is not a sample.
    pub trail: bool,
    /// Samples whose `in_kernel` differs from what their stack shows.
    pub in_kernel_exceptions: Vec<usize>,
    /// Number of samples that each one represents, if the table weighs time; absent: 1 each.
    #[serde(default)]
    pub weights: Vec<u32>,
    /// Waits of the thread.
    #[serde(default)]
    pub waits: Vec<RawWait>,
}

/// The profile's `ngmi` section.
#[derive(Debug, Deserialize)]
pub struct RawExact {
    /// Version of the section.
    pub version: u32,
    /// The profile's time 0 in ns.
    pub zero: String,
    /// The recording.
    pub recording: Value,
    /// Processes.
    pub processes: Vec<Value>,
    /// Threads.
    pub threads: Vec<Value>,
    /// Modules.
    pub modules: Vec<Value>,
    /// Files of faults and reads.
    pub files: Vec<Value>,
    /// Block devices.
    pub devices: Vec<Value>,
    /// Block requests.
    pub requests: Vec<RawRequest>,
    /// Causes of long faults and waits.
    pub causes: Vec<RawCause>,
    /// Row of the first labelled stack.
    pub labels: usize,
    /// Frames, encoded as in `shared::place`.
    pub frames: Vec<String>,
    /// Starts and sizes of the rows of `nativeSymbols`.
    pub symbols: Vec<String>,
}
