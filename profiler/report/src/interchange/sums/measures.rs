//! The tables that can be exported, and their measures.

/// A kind of event that can be exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// CPU samples.
    Samples,
    /// Page faults.
    Faults,
    /// Block requests.
    Requests,
    /// Waits.
    Waits,
}

impl Table {
    /// Every table, in the order of help.
    pub const ALL: [Self; 4] = [Self::Samples, Self::Faults, Self::Requests, Self::Waits];

    /// Its name for `--table`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Faults => "faults",
            Self::Requests => "requests",
            Self::Waits => "waits",
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
        }
    }
}

/// The weight of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weight {
    /// Time, in ns.
    #[default]
    Time,
    /// Number of events.
    Count,
    /// Bytes.
    Bytes,
}

impl Weight {
    /// Every weight, in the order of help.
    pub const ALL: [Self; 3] = [Self::Time, Self::Count, Self::Bytes];

    /// Its name for `--weight`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}
