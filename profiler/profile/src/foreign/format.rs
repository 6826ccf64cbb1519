//! The parts of the processed profile format, in any version, that CPU samples need; missing parts
//! are empty.

#![allow(missing_docs, reason = "fields have the names of the format")]

use serde::Deserialize;

/// A profile.
#[derive(Deserialize)]
pub struct RawProfile {
    pub meta: RawMeta,
    #[serde(default)]
    pub libs: Vec<RawLib>,
    pub threads: Vec<RawThread>,
    pub shared: Option<RawTables>,
}

/// `meta`
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct RawMeta {
    /// Milliseconds between samples.
    pub interval: f64,
    pub importer: Option<String>,
    pub product: Option<String>,
    pub sample_units: Option<RawUnits>,
    /// Milliseconds since 1970.
    pub start_time: f64,
}

/// Units of the sample columns.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawUnits {
    #[serde(rename = "threadCPUDelta", default)]
    pub cpu: String,
}

/// A row of `libs`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct RawLib {
    pub name: String,
    pub path: String,
    /// On Linux the build id, in hexadecimal digits.
    #[serde(rename = "codeId")]
    pub code_id: Option<String>,
}

/// Tables that belong to a thread, or are shared by all.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct RawTables {
    pub string_array: Vec<String>,
    pub frame_table: RawFrames,
    pub func_table: RawFunctions,
    pub resource_table: RawResources,
    pub stack_table: RawStacks,
}

/// `frameTable`
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct RawFrames {
    pub address: Vec<Option<f64>>,
    pub func: Vec<Option<u32>>,
}

/// `funcTable`
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct RawFunctions {
    pub name: Vec<Option<u32>>,
    pub resource: Vec<Option<i64>>,
}

/// `resourceTable`
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct RawResources {
    pub lib: Vec<Option<u32>>,
}

/// `stackTable`
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct RawStacks {
    pub prefix: Vec<Option<u32>>,
    pub frame: Vec<Option<u32>>,
}

/// A row of `threads`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct RawThread {
    pub name: String,
    pub process_name: Option<String>,
    pub pid: serde_json::Value,
    pub tid: serde_json::Value,
    pub is_main_thread: bool,
    pub samples: RawSamples,
    #[serde(flatten)]
    pub own: RawTables,
}

/// `samples`
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct RawSamples {
    pub stack: Vec<Option<u32>>,
    pub time: Option<Vec<f64>>,
    pub time_deltas: Option<Vec<f64>>,
    #[serde(rename = "threadCPUDelta")]
    pub cpu: Option<Vec<Option<f64>>>,
}
