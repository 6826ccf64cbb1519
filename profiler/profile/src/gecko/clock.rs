//! The times of a process: milliseconds since its start.

use serde_json::Value;

use crate::units::NS_PER_MS;
use base::addr::Timestamp;
use fact::Recording;

/// Latest time in milliseconds: a hundred days.
const LATEST: f64 = 100.0 * 86_400.0 * 1000.0;

/// When a process started, and what is recorded.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// `CLOCK_MONOTONIC` in ns at the process's time 0; may precede the boot if computed.
    zero: i128,
    /// Earliest time of the recording.
    start: Timestamp,
    /// Whether the wall clock connects both: 1 ms off, and more if it was set in between.
    pub is_estimate: bool,
}

impl Clock {
    /// Firefox 112 and later write their `CLOCK_MONOTONIC`, as the recording's is; others only the time since 1970.
    pub fn new(meta: &Value, recording: &Recording) -> Option<Self> {
        let exact = meta["startTimeAsClockMonotonicNanosecondsSinceBoot"].as_u64();
        let zero = if let Some(zero) = exact {
            i128::from(zero)
        } else {
            // NaN fails this comparison.
            let since_1970 = meta["startTime"].as_f64().filter(|time| (0.0..1e15).contains(time))?;
            let start = i128::from(recording.start_unix_ms) * 1_000_000;
            i128::from(recording.start.0) + nanoseconds(since_1970) - start
        };
        Some(Self {
            zero,
            start: recording.start,
            is_estimate: exact.is_none(),
        })
    }

    /// A time; not before the recording. `None`: not a time.
    pub fn at(&self, ms: f64) -> Option<Timestamp> {
        // NaN fails this comparison.
        if !(0.0..LATEST).contains(&ms) {
            return None;
        }
        let ns = self.zero.checked_add(nanoseconds(ms))?.max(0);
        u64::try_from(ns).ok().map(|ns| Timestamp(ns).max(self.start))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "`as` stops at the smallest and largest")]
fn nanoseconds(ms: f64) -> i128 {
    (ms * NS_PER_MS).round() as i128
}
