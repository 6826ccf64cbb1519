//! Typed addresses and times.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

address!(
    /// An actual virtual memory address: an address in a running process.
    Avma
);
address!(
    /// A stated virtual memory address: an address in the ELF file.
    Svma
);
address!(
    /// A byte offset in a file.
    FileOffset
);
address!(
    /// A kernel address minus the address of `_text`, wrapping: no log and no profile reveals where
    /// the kernel is loaded.
    KernelOffset
);

/// Page size in bytes: the unit of faults, of the page cache and of mappings. Kernels with larger
/// pages (some on arm64) use whole multiples.
pub const PAGE: u64 = 4096;

/// A duration in ns, saturating at 584 years.
pub fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A point in time: `CLOCK_MONOTONIC` in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Sets `known` to this time, unless it is earlier.
    pub fn keep_earliest(self, known: &mut Option<Self>) {
        *known = Some(known.map_or(self, |known| known.min(self)));
    }
}
