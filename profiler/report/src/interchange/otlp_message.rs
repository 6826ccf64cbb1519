//! The messages of OTLP profiles, `opentelemetry/proto/profiles/v1development`, with the fields that ngmi writes. That version is still in flux:
//! this is the one with a separate table of stacks, one value type per profile and one dictionary, as in the package `opentelemetry-proto` 1.45
//! on `PyPI`.

use super::message::messages;

messages! {
    /// The root message. `ExportProfilesServiceRequest` has the same fields.
    ProfilesData {
        resource_profiles: Vec<ResourceProfiles> = 1 (repeated message),
        dictionary: Option<Dictionary> = 2 (optional message),
    }

    /// The tables that profiles refer to by index. The first entry of each table is empty and means none.
    #[allow(clippy::struct_field_names, reason = "given by the format")]
    Dictionary {
        mapping_table: Vec<Mapping> = 1 (repeated message),
        location_table: Vec<Location> = 2 (repeated message),
        function_table: Vec<Function> = 3 (repeated message),
        link_table: Vec<Link> = 4 (repeated message),
        string_table: Vec<String> = 5 (repeated string),
        attribute_table: Vec<Attribute> = 6 (repeated message),
        stack_table: Vec<Stack> = 7 (repeated message),
    }

    /// The profiles of one resource.
    ResourceProfiles {
        resource: Option<Resource> = 1 (optional message),
        scope_profiles: Vec<ScopeProfiles> = 2 (repeated message),
    }

    /// The program and machine that were profiled.
    Resource {
        attributes: Vec<KeyValue> = 1 (repeated message),
    }

    /// The profiles of one profiler.
    ScopeProfiles {
        scope: Option<Scope> = 1 (optional message),
        /// Encoded [`Profile`] messages.
        profiles: Vec<Vec<u8>> = 2 (repeated bytes),
    }

    /// The profiler.
    Scope {
        name: String = 1 (string),
        version: String = 2 (string),
    }

    /// A profile with values of one type.
    Profile {
        sample_type: Option<ValueType> = 1 (optional message),
        samples: Vec<Sample> = 2 (repeated message),
        time_unix_nano: u64 = 3 (fixed64),
        duration_nano: u64 = 4 (uint64),
        period_type: Option<ValueType> = 5 (optional message),
        period: i64 = 6 (int64),
    }

    /// The kind and unit of a value, as indices into the strings.
    #[derive(Copy)]
    ValueType {
        kind: i32 = 1 (int32),
        unit: i32 = 2 (int32),
    }

    /// A stack with its value and attributes.
    Sample {
        stack_index: i32 = 1 (int32),
        attribute_indices: Vec<i32> = 2 (repeated int32),
        values: Vec<i64> = 4 (repeated int64),
    }

    /// A mapping of a file in memory.
    Mapping {
        memory_start: u64 = 1 (uint64),
        memory_limit: u64 = 2 (uint64),
        file_offset: u64 = 3 (uint64),
        filename: i32 = 4 (int32),
        attribute_indices: Vec<i32> = 5 (repeated int32),
    }

    /// The locations of a stack, innermost first.
    Stack {
        location_indices: Vec<i32> = 1 (repeated int32),
    }

    /// An address and the functions there, innermost inlined function first.
    Location {
        mapping_index: i32 = 1 (int32),
        address: u64 = 2 (uint64),
        lines: Vec<Line> = 3 (repeated message),
        attribute_indices: Vec<i32> = 4 (repeated int32),
    }

    /// A source line in a function.
    #[derive(Copy)]
    Line {
        function_index: i32 = 1 (int32),
        line: i64 = 2 (int64),
    }

    /// A function, with indices into the strings.
    #[derive(Copy)]
    Function {
        name: i32 = 1 (int32),
        system_name: i32 = 2 (int32),
        filename: i32 = 3 (int32),
    }

    /// The trace that a sample belongs to; only the empty entry is written.
    #[derive(Copy)]
    Link {}

    /// An attribute: the index of its key, and its value.
    Attribute {
        key: i32 = 1 (int32),
        value: Option<AnyValue> = 2 (optional message),
    }

    /// An attribute with its key as text.
    KeyValue {
        key: String = 1 (string),
        value: Option<AnyValue> = 2 (optional message),
    }
}

/// The optional value of an attribute.
#[derive(Clone, PartialEq, prost::Message)]
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
