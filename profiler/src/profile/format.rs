//! The parts of a profile that are read back, as the JSON has them: nothing is checked yet.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::exact_cause::RawCause;
use super::exact_request::RawRequest;
use super::exact_wait::RawWait;

/// A reference to a row: missing, −1 or a number.
pub type Index = Option<i64>;

/// A whole profile.
#[derive(Debug, Deserialize)]
pub struct RawProfile<'a> {
    /// About the profile.
    pub meta: RawMeta,
    /// Libraries.
    pub libs: Vec<RawLib>,
    /// Counters.
    #[serde(default)]
    pub counters: Vec<RawCounter>,
    /// Tables of all threads.
    pub shared: RawShared,
    /// Threads with their own tables.
    #[serde(borrow)]
    pub threads: Vec<RawThread<'a>>,
    /// Our own section.
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
    /// Types of markers.
    pub marker_schema: Vec<RawSchema>,
    /// Threads to show.
    #[serde(default)]
    pub initial_visible_threads: Vec<i64>,
    /// Threads to select.
    #[serde(default)]
    pub initial_selected_threads: Vec<i64>,
}

/// A category.
#[derive(Debug, Deserialize)]
pub struct RawCategory {
    /// Its colour.
    pub color: String,
    /// Names of its parts.
    pub subcategories: Vec<String>,
}

/// A type of markers.
#[derive(Debug, Deserialize)]
pub struct RawSchema {
    /// The `type` of its payloads.
    pub name: String,
    /// What the front end shows of them.
    #[serde(default)]
    pub fields: Vec<RawField>,
}

/// A field of a payload.
#[derive(Debug, Deserialize)]
pub struct RawField {
    /// Its key.
    pub key: String,
    /// How it is shown.
    pub format: String,
}

/// A library.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawLib {
    /// Display name.
    pub name: String,
    /// Id for symbol servers.
    pub breakpad_id: String,
}

/// A counter.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawCounter {
    /// Its name.
    pub name: String,
    /// First thread of its process.
    pub main_thread_index: i64,
    /// Its values.
    pub samples: RawCounterSamples,
    /// How it is drawn.
    pub display: Option<Value>,
}

/// A counter's values.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawCounterSamples {
    /// Rows.
    pub length: usize,
    /// Since the row before, in ms.
    pub time_deltas: Vec<f64>,
    /// Value.
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
    /// Groups of functions.
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
    /// Rows.
    pub length: usize,
    /// Row of the frame table.
    pub frame: Vec<Index>,
    /// How many rows before the caller is; 0: outermost.
    pub prefix_offset: Vec<Index>,
}

/// `frameTable`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawFrames {
    /// Rows.
    pub length: usize,
    /// Relative address.
    pub address: Vec<Index>,
    /// Library.
    pub lib: Vec<Index>,
    /// 0: not inlined.
    pub inline_depth: Vec<Index>,
    /// Category.
    pub category: Vec<Index>,
    /// Part of the category.
    pub subcategory: Vec<Index>,
    /// Function.
    pub func: Vec<Index>,
    /// Symbol.
    pub native_symbol: Vec<Index>,
    /// Line.
    pub line: Vec<Index>,
}

/// `funcTable`
#[derive(Debug, Deserialize)]
pub struct RawFuncs {
    /// Rows.
    pub length: usize,
    /// String.
    pub name: Vec<Index>,
    /// Resource.
    pub resource: Vec<Index>,
    /// Source file.
    pub source: Vec<Index>,
}

/// `resourceTable`
#[derive(Debug, Deserialize)]
pub struct RawResources {
    /// Rows.
    pub length: usize,
    /// String.
    pub name: Vec<Index>,
}

/// `nativeSymbols`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawSymbols {
    /// Rows.
    pub length: usize,
    /// Library.
    pub lib_index: Vec<Index>,
    /// Relative address.
    pub address: Vec<Index>,
    /// String.
    pub name: Vec<Index>,
    /// Bytes.
    pub function_size: Vec<Index>,
}

/// `sources`
#[derive(Debug, Deserialize)]
pub struct RawSources {
    /// Rows.
    pub length: usize,
    /// String.
    pub filename: Vec<Index>,
    /// The text.
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
    /// Our own section.
    pub ngmi: Option<RawThreadExact>,
    /// It is no thread: its samples are the page faults of its process, or a device's requests.
    #[serde(rename = "ngmiCompanion")]
    pub companion: Option<IgnoredAny>,
    /// It weighs a difference (`ngmi diff --profile`).
    #[serde(default, rename = "ngmiDifference")]
    pub difference: Option<IgnoredAny>,
}

/// `samples`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawSamples {
    /// Rows.
    pub length: usize,
    /// Row of the stack table.
    pub stack: Vec<Index>,
    /// Since the row before, in ms.
    pub time_deltas: Vec<f64>,
    /// Samples that it stands for, or ms; a companion's: ms or bytes.
    pub weight: Option<Vec<f64>>,
    /// `samples`, `tracing-ms`, `bytes`
    pub weight_type: String,
    /// On-CPU time since the row before, in ns; a companion has none.
    #[serde(rename = "threadCPUDelta", default)]
    pub thread_cpu_delta: Vec<Option<u64>>,
}

/// `markers`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawMarkers<'a> {
    /// Rows.
    pub length: usize,
    /// Category.
    pub category: Vec<Index>,
    /// Payload.
    #[serde(borrow)]
    pub data: Vec<&'a RawValue>,
    /// String.
    pub name: Vec<Index>,
    /// In ms.
    pub start_time: Vec<Option<f64>>,
    /// In ms.
    pub end_time: Vec<Option<f64>>,
    /// 0: instant, 1: interval.
    pub phase: Vec<u8>,
}

/// A thread's `ngmi` section.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawThreadExact {
    /// Its number in the tables.
    pub thread: u32,
    /// The first row of the samples is no sample.
    pub lead: bool,
    /// The last row of the samples is no sample.
    pub trail: bool,
    /// Samples whose stack says the wrong thing about the kernel.
    pub in_kernel_exceptions: Vec<usize>,
    /// How many samples each stands for, where the table weighs time; none: 1 each.
    #[serde(default)]
    pub weights: Vec<u32>,
    /// Its waits.
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
    /// Files that faults and reads touched.
    pub files: Vec<Value>,
    /// Block devices.
    pub devices: Vec<Value>,
    /// Block requests.
    pub requests: Vec<RawRequest>,
    /// Why faults and waits took so long.
    pub causes: Vec<RawCause>,
    /// Row of the first labelled stack.
    pub labels: usize,
    /// Frames, as `place` spells them.
    pub frames: Vec<String>,
    /// Starts and sizes of the rows of `nativeSymbols`.
    pub symbols: Vec<String>,
}
