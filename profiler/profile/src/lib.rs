//! The only code that depends on the Firefox Profiler's format. See docs/profile.md.
//!
//! [`write()`] writes a profile of collected facts, [`ProfileSource`] reads one back into the same
//! facts, and [`lint()`] checks what the profiler's web page relies on. There is one file for each
//! part of the format.
//!
//! What the profiler's page would refuse is listed:
//!
//! ```
//! assert!(!profile::lint(&b"{}"[..]).is_empty());
//! ```

mod categories;
mod columns;
mod companion;
mod counter;
mod device;
mod device_counter;
mod difference;
mod exact;
mod exact_cause;
mod exact_request;
mod exact_wait;
mod fault;
mod fault_bits;
mod fault_names;
mod fault_schema;
mod foreign;
mod foreign_format;
mod format;
mod gecko;
pub mod gzip;
mod info;
mod info_cost;
mod info_io;
mod input;
mod labels;
mod lanes;
mod libs;
mod lint;
mod lint_markers;
mod lint_problems;
mod lint_tables;
mod mark;
mod markers;
mod named;
mod place;
mod read;
mod read_markers;
mod read_tables;
mod references;
mod request;
mod sample;
mod scan;
mod schema;
mod shared;
mod shell;
mod skeleton;
pub mod texts;
mod timeline;
mod times;
mod track;
mod visible;
mod wait;
mod wait_schema;
mod words;
mod write;

use std::time::Duration;

use base::addr::Timestamp;

pub use difference::{Difference, Weights};
pub use foreign::{FOREIGN, ForeignSource};
pub use lint::lint;
pub use named::named;
pub use read::{ProfileSource, ReadError};
pub use write::{ProfileStats, WriteError, write};

/// The version of the processed profile format that is written and read: threads share tables (60
/// and later), stacks refer to their callers by distance (66), and frames refer to their libraries
/// (70).
pub const FORMAT_VERSION: u32 = 70;

/// Nanoseconds in a millisecond, the format's unit of time.
const NS_PER_MS: f64 = 1_000_000.0;

/// Milliseconds since time 0.
fn ms(time: Timestamp, zero: Timestamp) -> f64 {
    milliseconds(time.since(zero))
}

/// A duration in ms: exact to the nanosecond when read back, below 104 days.
fn milliseconds(time: Duration) -> f64 {
    const JS_MAX: u128 = (1 << 53) - 1;
    time.as_nanos().min(JS_MAX) as f64 / NS_PER_MS
}
