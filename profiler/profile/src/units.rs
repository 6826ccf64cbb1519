//! The unit of time of the format, to nanoseconds and back.

use std::time::Duration;

use crate::error::ReadError;
use base::addr::Timestamp;

/// Nanoseconds in a millisecond, the format's unit of time.
pub const NS_PER_MS: f64 = 1_000_000.0;

/// Milliseconds since time 0.
pub fn ms(time: Timestamp, zero: Timestamp) -> f64 {
    milliseconds(time.since(zero))
}

/// A duration in ms: exact to the nanosecond when read back, below 104 days.
pub fn milliseconds(time: Duration) -> f64 {
    const JS_MAX: u128 = (1 << 53) - 1;
    time.as_nanos().min(JS_MAX) as f64 / NS_PER_MS
}

/// Adds milliseconds that are a whole number of nanoseconds below 2⁵³.
pub fn advance(time: Timestamp, ms: f64) -> Result<Timestamp, ReadError> {
    let ns = whole_nanoseconds(ms)?;
    time.0.checked_add(ns).map(Timestamp).ok_or(ReadError::Damaged("time"))
}

/// A duration in milliseconds.
pub fn duration_of(ms: f64) -> Result<Duration, ReadError> {
    whole_nanoseconds(ms).map(Duration::from_nanos)
}

fn whole_nanoseconds(ms: f64) -> Result<u64, ReadError> {
    let ns = (ms * NS_PER_MS).round();
    // NaN fails this comparison.
    if !(0.0..9_007_199_254_740_992.0).contains(&ns) {
        return Err(ReadError::Damaged("time"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let ns = ns as u64;
    Ok(ns)
}
