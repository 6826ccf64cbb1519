//! The messages of OTLP's profiles, `opentelemetry/proto/profiles/v1development`, as far as they are written. That version still changes: this
//! is the one with stacks in a table of their own, one type of value a profile and one dictionary, as the package `opentelemetry-proto` 1.45 on `PyPI` has it.

use prost::Message;

/// Everything. `ExportProfilesServiceRequest` has the same fields.
#[derive(Clone, PartialEq, Message)]
pub struct ProfilesData {
    #[prost(message, repeated, tag = "1")]
    pub resource_profiles: Vec<ResourceProfiles>,
    #[prost(message, optional, tag = "2")]
    pub dictionary: Option<Dictionary>,
}

/// What profiles refer to by index. The first of each table is empty and stands for nothing.
#[derive(Clone, PartialEq, Message)]
#[allow(clippy::struct_field_names, reason = "the format's own")]
pub struct Dictionary {
    #[prost(message, repeated, tag = "1")]
    pub mapping_table: Vec<Mapping>,
    #[prost(message, repeated, tag = "2")]
    pub location_table: Vec<Location>,
    #[prost(message, repeated, tag = "3")]
    pub function_table: Vec<Function>,
    #[prost(message, repeated, tag = "4")]
    pub link_table: Vec<Link>,
    #[prost(string, repeated, tag = "5")]
    pub string_table: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub attribute_table: Vec<Attribute>,
    #[prost(message, repeated, tag = "7")]
    pub stack_table: Vec<Stack>,
}

/// Profiles of one machine.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceProfiles {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_profiles: Vec<ScopeProfiles>,
}

/// What was profiled.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Profiles of one profiler.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeProfiles {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// Encoded: [`Profile`].
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub profiles: Vec<Vec<u8>>,
}

/// The profiler.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

/// Values of one type.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    #[prost(message, optional, tag = "1")]
    pub sample_type: Option<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    #[prost(uint64, tag = "4")]
    pub duration_nano: u64,
    #[prost(message, optional, tag = "5")]
    pub period_type: Option<ValueType>,
    #[prost(int64, tag = "6")]
    pub period: i64,
}

/// What a value is; both are indices into the strings.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(int32, tag = "2")]
    pub unit: i32,
}

/// A stack's value.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    #[prost(int32, tag = "1")]
    pub stack_index: i32,
    #[prost(int32, repeated, tag = "2")]
    pub attribute_indices: Vec<i32>,
    #[prost(int64, repeated, tag = "4")]
    pub values: Vec<i64>,
}

/// A file in memory.
#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub memory_start: u64,
    #[prost(uint64, tag = "2")]
    pub memory_limit: u64,
    #[prost(uint64, tag = "3")]
    pub file_offset: u64,
    #[prost(int32, tag = "4")]
    pub filename: i32,
    #[prost(int32, repeated, tag = "5")]
    pub attribute_indices: Vec<i32>,
}

/// Locations, innermost first.
#[derive(Clone, PartialEq, Message)]
pub struct Stack {
    #[prost(int32, repeated, tag = "1")]
    pub location_indices: Vec<i32>,
}

/// An address and the functions there, innermost inlined one first.
#[derive(Clone, PartialEq, Message)]
pub struct Location {
    #[prost(int32, tag = "1")]
    pub mapping_index: i32,
    #[prost(uint64, tag = "2")]
    pub address: u64,
    #[prost(message, repeated, tag = "3")]
    pub lines: Vec<Line>,
    #[prost(int32, repeated, tag = "4")]
    pub attribute_indices: Vec<i32>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Line {
    #[prost(int32, tag = "1")]
    pub function_index: i32,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    #[prost(int32, tag = "1")]
    pub name: i32,
    #[prost(int32, tag = "2")]
    pub system_name: i32,
    #[prost(int32, tag = "3")]
    pub filename: i32,
}

/// A trace that a sample belongs to: only the empty one is written.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Link {}

/// A key, by index, and its value.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(int32, tag = "1")]
    pub key: i32,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A key and its value.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 3")]
    pub value: Option<Any>,
}

/// What it is.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Any {
    /// Text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Number(i64),
}
