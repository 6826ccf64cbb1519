//! The tables that can be exported, and their measures.

use base::named;

named! {
    /// A table that can be exported: a kind of event, or the critical path.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Table {
        /// CPU samples.
        Samples => "samples",
        /// Page faults.
        Faults => "faults",
        /// Block requests.
        Requests => "requests",
        /// Waits.
        Waits => "waits",
        /// The pieces of the critical path.
        Path => "path",
    }
}

impl Table {
    /// The name of a row.
    pub const fn row(self) -> &'static str {
        match self {
            Self::Samples => "sample",
            Self::Faults => "fault",
            Self::Requests => "request",
            Self::Waits => "wait",
            Self::Path => "path piece",
        }
    }

    /// Its measures: weight, and the name and unit for formats with sample types.
    pub const fn measures(self) -> &'static [(Weight, &'static str, &'static str)] {
        match self {
            Self::Samples => &[
                (Weight::Count, "samples", "count"),
                (Weight::Time, "cpu", "nanoseconds"),
            ],
            Self::Faults => &[
                (Weight::Count, "faults", "count"),
                (Weight::Time, "fault_time", "nanoseconds"),
                (Weight::Bytes, "fault_bytes", "bytes"),
            ],
            Self::Requests => &[
                (Weight::Count, "ios", "count"),
                (Weight::Time, "io_time", "nanoseconds"),
                (Weight::Bytes, "io_bytes", "bytes"),
            ],
            Self::Waits => &[
                (Weight::Count, "waits", "count"),
                (Weight::Time, "off_cpu", "nanoseconds"),
            ],
            Self::Path => &[
                (Weight::Count, "path_pieces", "count"),
                (Weight::Time, "path", "nanoseconds"),
            ],
        }
    }
}

named! {
    /// The weight of a stack.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Weight {
        /// Time, in ns.
        #[default]
        Time => "time",
        /// Number of events.
        Count => "count",
        /// Bytes.
        Bytes => "bytes",
    }
}
