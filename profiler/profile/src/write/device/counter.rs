//! Counter tracks of each block device: bytes and requests in flight, and requests per second. They
//! count every request, including those without a marker; unfinished requests stay in flight to the
//! end, and are never counted as completed.

use serde_json::Value;

use crate::units::NS_PER_MS;
use crate::write::track::Counter;
use base::addr::Timestamp;
use fact::reduce::budget::{Collected, LoadStep};
use fact::{DeviceId, Tables};

/// Milliseconds in a second.
const PER_SECOND: f64 = 1_000.0;

/// The quantity of a track. The front end shows a value divided by the milliseconds since the
/// previous one.
#[derive(Debug, Clone, Copy)]
enum DeviceMetric {
    Bytes,
    Depth,
    Rate,
}

impl DeviceMetric {
    /// The scale at which a value divided by its time in ms is bytes, requests, or requests per
    /// second.
    fn value(self, step: &LoadStep) -> f64 {
        match self {
            Self::Bytes => step.bytes_ns as f64 / NS_PER_MS,
            Self::Depth => step.requests_ns as f64 / NS_PER_MS,
            Self::Rate => step.complete as f64 * PER_SECOND,
        }
    }

    /// Name, label, unit of the rate, colour, position.
    fn words(self) -> (&'static str, &'static str, &'static str, &'static str, u32) {
        match self {
            Self::Bytes => ("ngmiBytesInFlight", "bytes in flight", "bytes", "blue", 60),
            Self::Depth => ("ngmiQueueDepth", "queue depth", "number", "purple", 61),
            Self::Rate => ("ngmiIops", "requests per second", "number", "orange", 62),
        }
    }
}

/// The counters of each device; the thread of the first device has index `first` in `threads`.
pub fn all(tables: &Tables, collected: &Collected, devices: &[DeviceId], first: usize, zero: Timestamp) -> Vec<Value> {
    let mut counters = Vec::new();
    for (device, index) in devices.iter().zip(first..) {
        let Some(totals) = collected.request_totals.get(device) else {
            continue;
        };
        let steps = totals.load.steps();
        for metric in [DeviceMetric::Bytes, DeviceMetric::Depth, DeviceMetric::Rate] {
            let (name, label, unit, color, weight) = metric.words();
            let counter = Counter {
                name,
                category: "Disk",
                description: format!("{label} of the device"),
                pid: super::pid(tables, *device),
                thread: index,
                units: (if unit == "bytes" { "bytes" } else { "" }, unit),
                color,
                weight,
                label,
                columns: columns(metric, &steps, zero),
            };
            counters.push(counter.row());
        }
    }
    counters
}

/// Times and values: a zero precedes each run of steps, and one follows it.
fn columns(metric: DeviceMetric, steps: &[LoadStep], zero: Timestamp) -> (Vec<f64>, Vec<f64>) {
    let mut rows: Vec<(u64, f64)> = Vec::with_capacity(steps.len() + 2);
    for (index, step) in steps.iter().enumerate() {
        let last = rows.last().map(|(time, _)| *time);
        if last.is_none_or(|last| last < step.start.0) {
            rows.push((step.start.0, 0.0));
        }
        rows.push((step.end.0, metric.value(step)));
        let next = steps.get(index + 1).map(|next| next.start.0);
        if next.is_none_or(|next| next > step.end.0) {
            let fall = step.end.0.saturating_add(step.end.0 - step.start.0);
            rows.push((next.map_or(fall, |next| next.min(fall)), 0.0));
        }
    }
    let mut last = zero.0;
    let deltas = rows.iter().map(|(time, _)| {
        let time = (*time).max(last);
        let delta = (time - last) as f64 / NS_PER_MS;
        last = time;
        delta
    });
    (deltas.collect(), rows.iter().map(|(_, value)| *value).collect())
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // Whole numbers.
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_step_is_its_value_over_time() {
        let step = |start: u64, end: u64| LoadStep {
            start: Timestamp(start * 1_000_000),
            end: Timestamp(end * 1_000_000),
            complete: 3,
            requests_ns: 20_000_000,
            bytes_ns: 4096 * 10_000_000,
        };
        let steps = [step(10, 20), step(20, 30), step(90, 100)];
        let (deltas, bytes) = columns(DeviceMetric::Bytes, &steps, Timestamp(5_000_000));
        assert_eq!(deltas, [5.0, 10.0, 10.0, 10.0, 50.0, 10.0, 10.0]);
        assert_eq!(bytes, [0.0, 40960.0, 40960.0, 0.0, 0.0, 40960.0, 0.0]);
        // 3 requests in 10 ms are 300 per second.
        assert_eq!(columns(DeviceMetric::Rate, &steps, Timestamp(0)).1[1] / 10.0, 300.0);
        assert_eq!(columns(DeviceMetric::Depth, &steps, Timestamp(0)).1[1] / 10.0, 2.0);
    }
}
