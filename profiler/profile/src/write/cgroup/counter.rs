//! Counter tracks of each cgroup: its memory, also as a share of its limit, and the pressure on its tasks as a share of time.

use serde_json::Value;

use crate::units::NS_PER_MS;
use crate::write::track::Counter;
use base::addr::Timestamp;
use base::event::usage::{CgroupUsage, Pressure, UsageSample};
use fact::Tables;

/// Microseconds in a millisecond.
const US_PER_MS: f64 = 1_000.0;
/// How long a track goes on after its last value, in ns.
const AFTER: u64 = 100_000_000;

/// The quantity of a track. The front end shows a value divided by the milliseconds since the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Metric {
    Memory,
    OfLimit,
    Swap,
    Cpu,
    MemorySome,
    MemoryFull,
    IoSome,
    IoFull,
}

impl Metric {
    const ALL: [Self; 8] = [
        Self::Memory,
        Self::OfLimit,
        Self::Swap,
        Self::Cpu,
        Self::MemorySome,
        Self::MemoryFull,
        Self::IoSome,
        Self::IoFull,
    ];

    /// Name, beginning of the label, color, description.
    fn words(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Memory => ("ngmiCgroupMemory", "memory", "green", "Memory of the cgroup"),
            Self::OfLimit => (
                "ngmiCgroupOfLimit",
                "memory, of the limit",
                "red",
                "Memory as a share of the lowest of the cgroup's own limits",
            ),
            Self::Swap => ("ngmiCgroupSwap", "swap", "orange", "Swapped-out memory of the cgroup"),
            Self::Cpu => (
                "ngmiCgroupCpuPressure",
                "CPU pressure",
                "magenta",
                "Share of time in which some task waited for a CPU",
            ),
            Self::MemorySome => (
                "ngmiCgroupMemoryPressure",
                "memory pressure",
                "purple",
                "Share of time in which some task waited for memory",
            ),
            Self::MemoryFull => (
                "ngmiCgroupMemoryPressureFull",
                "memory pressure (all tasks)",
                "purple",
                "Share of time in which all tasks waited for memory",
            ),
            Self::IoSome => (
                "ngmiCgroupIoPressure",
                "I/O pressure",
                "blue",
                "Share of time in which some task waited for I/O",
            ),
            Self::IoFull => (
                "ngmiCgroupIoPressureFull",
                "I/O pressure (all tasks)",
                "blue",
                "Share of time in which all tasks waited for I/O",
            ),
        }
    }

    fn is_bytes(self) -> bool {
        matches!(self, Self::Memory | Self::Swap)
    }

    /// The value after `delta` ms, times these: bytes or a share.
    fn value(self, before: &UsageSample, after: &UsageSample, delta: f64) -> Option<f64> {
        let pressure = |of: fn(&UsageSample) -> Option<Pressure>, total: fn(Pressure) -> u64| {
            let (before, after) = of(before).zip(of(after))?;
            let waited = total(after).saturating_sub(total(before));
            Some((waited as f64 / US_PER_MS).min(delta))
        };
        match self {
            // A cgroup that was created again by the same name begins without a value before.
            Self::Memory | Self::OfLimit | Self::Swap if before.memory.is_none() => None,
            Self::Memory => Some(after.memory? as f64 * delta),
            Self::OfLimit => Some(after.memory? as f64 / after.limit()?.max(1) as f64 * delta),
            Self::Swap => Some(after.swap? as f64 * delta),
            Self::Cpu => pressure(|sample| sample.cpu, |pressure| pressure.some),
            Self::MemorySome => pressure(|sample| sample.memory_pressure, |pressure| pressure.some),
            Self::MemoryFull => pressure(|sample| sample.memory_pressure, |pressure| pressure.full),
            Self::IoSome => pressure(|sample| sample.io, |pressure| pressure.some),
            Self::IoFull => pressure(|sample| sample.io, |pressure| pressure.full),
        }
    }
}

/// The counters of all cgroups with these names; the track of the first one is at `first` in `threads`. Quantities that
/// are always zero are left out.
pub fn all(tables: &Tables, names: &[String], first: usize, (zero, end): (Timestamp, Timestamp)) -> Vec<Value> {
    let mut counters = Vec::new();
    for ((index, usage), name) in super::all(tables).zip(names) {
        for (metric, weight) in Metric::ALL.into_iter().zip(70..) {
            let (deltas, values) = columns(metric, usage, (zero, end));
            if values.iter().all(|value| *value <= 0.0) {
                continue;
            }
            let (id, words, color, description) = metric.words();
            let label = format!("{words} of {name}");
            let unit = if metric.is_bytes() { "bytes" } else { "percent" };
            let counter = Counter {
                name: id,
                category: "Memory pressure",
                description: description.to_owned(),
                pid: super::pid(index),
                thread: first + index,
                units: (unit, unit),
                color,
                weight,
                label: &label,
                columns: (deltas, values),
            };
            counters.push(counter.row());
        }
    }
    counters
}

/// Times and values: a zero at the first sample, which has no time before it, and one after the last.
fn columns(metric: Metric, usage: &CgroupUsage, (zero, end): (Timestamp, Timestamp)) -> (Vec<f64>, Vec<f64>) {
    let within = |sample: &UsageSample| sample.time.clamp(zero, end.max(zero));
    let (mut deltas, mut values) = (Vec::new(), Vec::new());
    let mut last: Option<&UsageSample> = None;
    for sample in &usage.samples {
        let before = last.map_or(zero, within);
        let delta = within(sample).since(before).as_nanos() as f64 / NS_PER_MS;
        let value = last.map(|last| metric.value(last, sample, delta));
        deltas.push(delta);
        values.push(value.flatten().unwrap_or(0.0));
        last = Some(sample);
    }
    if let Some(last) = last.map(within).filter(|last| *last < end) {
        let after = end.since(last).as_nanos() as f64;
        deltas.push(after.min(AFTER as f64) / NS_PER_MS);
        values.push(0.0);
    }
    (deltas, values)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // Whole numbers.
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn usage() -> CgroupUsage {
        let sample = |ms: u64, memory, waited| UsageSample {
            time: Timestamp(ms * MS),
            memory: Some(memory),
            high: Some(8192),
            memory_pressure: Some(Pressure { some: waited, full: 0 }),
            ..UsageSample::default()
        };
        CgroupUsage {
            samples: vec![sample(5, 1024, 1000), sample(10, 4096, 3000), sample(30, 2048, 99_000)],
            ..CgroupUsage::default()
        }
    }

    #[test]
    fn a_value_over_its_time_is_what_the_sample_shows() {
        let times = (Timestamp(MS), Timestamp(500 * MS));
        let rates = |metric| {
            let (deltas, values) = columns(metric, &usage(), times);
            assert_eq!(deltas, [4.0, 5.0, 20.0, 100.0]);
            let rates = values.iter().zip(&deltas).map(|(value, delta)| value / delta);
            rates.collect::<Vec<f64>>()
        };
        assert_eq!(rates(Metric::Memory), [0.0, 4096.0, 2048.0, 0.0]);
        assert_eq!(rates(Metric::OfLimit), [0.0, 0.5, 0.25, 0.0]);
        // 2 of 5 ms; more than all of the time is impossible.
        assert_eq!(rates(Metric::MemorySome), [0.0, 0.4, 1.0, 0.0]);
        for nothing in [Metric::Swap, Metric::MemoryFull, Metric::Cpu, Metric::IoSome] {
            assert_eq!(rates(nothing), [0.0; 4], "{nothing:?}");
        }
    }

    #[test]
    fn times_beyond_the_profile_are_at_its_end() {
        let (deltas, _) = columns(Metric::Memory, &usage(), (Timestamp(6 * MS), Timestamp(20 * MS)));
        assert_eq!(deltas, [0.0, 4.0, 10.0]);
    }
}
