//! The messages of pprof's `profile.proto` (google/pprof, `proto/profile.proto`), with the fields that ngmi writes.

/// Defines messages as `.proto` files do: a field per line, with its number and kind.
macro_rules! messages {
    ($($(#[$meta:meta])* $Message:ident { $($(#[$doc:meta])* $field:ident: $Type:ty = $tag:tt ($($kind:ident)+),)* })*) => {
        $(#[derive(Clone, PartialEq, prost::Message)]
        $(#[$meta])*
        pub struct $Message {
            $($(#[$doc])* #[prost($($kind),+, tag = $tag)] pub $field: $Type,)*
        })*
    };
}
pub(super) use messages;

messages! {
    /// A profile, or a part of one: concatenated parts form one profile.
    Profile {
        sample_type: Vec<ValueType> = 1 (repeated message),
        sample: Vec<Sample> = 2 (repeated message),
        mapping: Vec<Mapping> = 3 (repeated message),
        location: Vec<Location> = 4 (repeated message),
        function: Vec<Function> = 5 (repeated message),
        string_table: Vec<String> = 6 (repeated string),
        time_nanos: i64 = 9 (int64),
        duration_nanos: i64 = 10 (int64),
        period_type: Option<ValueType> = 11 (optional message),
        period: i64 = 12 (int64),
        comment: Vec<i64> = 13 (repeated int64),
        default_sample_type: i64 = 14 (int64),
    }

    /// The kind and unit of a value, as indices into the strings.
    #[derive(Copy)]
    ValueType {
        kind: i64 = 1 (int64),
        unit: i64 = 2 (int64),
    }

    /// A stack, innermost location first, with its values and labels.
    Sample {
        location_id: Vec<u64> = 1 (repeated uint64),
        value: Vec<i64> = 2 (repeated int64),
        label: Vec<Label> = 3 (repeated message),
    }

    /// A key with a string or a number.
    #[derive(Copy)]
    Label {
        key: i64 = 1 (int64),
        text: i64 = 2 (int64),
        number: i64 = 3 (int64),
    }

    /// A mapping of a file in memory.
    #[derive(Copy)]
    #[allow(clippy::struct_excessive_bools, reason = "given by the format")]
    Mapping {
        id: u64 = 1 (uint64),
        memory_start: u64 = 2 (uint64),
        memory_limit: u64 = 3 (uint64),
        file_offset: u64 = 4 (uint64),
        filename: i64 = 5 (int64),
        build_id: i64 = 6 (int64),
        has_functions: bool = 7 (bool),
        has_filenames: bool = 8 (bool),
        has_line_numbers: bool = 9 (bool),
        has_inline_frames: bool = 10 (bool),
    }

    /// An address and the functions there, innermost inlined function first.
    Location {
        id: u64 = 1 (uint64),
        mapping_id: u64 = 2 (uint64),
        address: u64 = 3 (uint64),
        line: Vec<Line> = 4 (repeated message),
    }

    /// A source line in a function.
    #[derive(Copy)]
    Line {
        function_id: u64 = 1 (uint64),
        line: i64 = 2 (int64),
    }

    /// A function, with indices into the strings.
    #[derive(Copy)]
    Function {
        id: u64 = 1 (uint64),
        name: i64 = 2 (int64),
        system_name: i64 = 3 (int64),
        filename: i64 = 4 (int64),
    }
}
