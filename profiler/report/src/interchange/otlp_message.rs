//! The messages of OTLP profiles, `opentelemetry/proto/profiles/v1development`, with the fields that ngmi writes. That version is still in flux:
//! this is the one with a separate table of stacks, one value type per profile and one dictionary, as in the package `opentelemetry-proto` 1.45
//! on `PyPI`.

use prost::Message;

/// The root message. `ExportProfilesServiceRequest` has the same fields.
#[derive(Clone, PartialEq, Message)]
pub struct ProfilesData {
    #[prost(message, repeated, tag = "1")]
    pub resource_profiles: Vec<ResourceProfiles>,
    #[prost(message, optional, tag = "2")]
    pub dictionary: Option<Dictionary>,
}

/// The tables that profiles refer to by index. The first entry of each table is empty and means none.
#[derive(Clone, PartialEq, Message)]
#[allow(clippy::struct_field_names, reason = "given by the format")]
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

/// The profiles of one resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceProfiles {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_profiles: Vec<ScopeProfiles>,
}

/// The program and machine that were profiled.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The profiles of one profiler.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeProfiles {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// Encoded [`Profile`] messages.
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

/// A profile with values of one type.
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

/// The kind and unit of a value, as indices into the strings.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ValueType {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(int32, tag = "2")]
    pub unit: i32,
}

/// A stack with its value and attributes.
#[derive(Clone, PartialEq, Message)]
pub struct Sample {
    #[prost(int32, tag = "1")]
    pub stack_index: i32,
    #[prost(int32, repeated, tag = "2")]
    pub attribute_indices: Vec<i32>,
    #[prost(int64, repeated, tag = "4")]
    pub values: Vec<i64>,
}

/// A mapping of a file in memory.
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

/// The locations of a stack, innermost first.
#[derive(Clone, PartialEq, Message)]
pub struct Stack {
    #[prost(int32, repeated, tag = "1")]
    pub location_indices: Vec<i32>,
}

/// An address and the functions there, innermost inlined function first.
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

/// A source line in a function.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Line {
    #[prost(int32, tag = "1")]
    pub function_index: i32,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function, with indices into the strings.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Function {
    #[prost(int32, tag = "1")]
    pub name: i32,
    #[prost(int32, tag = "2")]
    pub system_name: i32,
    #[prost(int32, tag = "3")]
    pub filename: i32,
}

/// The trace that a sample belongs to; only the empty entry is written.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Link {}

/// An attribute: the index of its key, and its value.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(int32, tag = "1")]
    pub key: i32,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// An attribute with its key as text.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// The optional value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 3")]
    pub value: Option<Any>,
}

/// The types of attribute values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Any {
    /// Text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Number(i64),
}
