//! Counter tracks of each visible process: CPU time of all its threads (250 % is two and a half
//! CPUs), and its page faults.

use fxprof_processed_profile::{GraphColor, ProcessHandle, Profile, Timestamp as FxTimestamp};
use serde_json::{Value, json};

use super::sample::SampleRows;
use crate::units::NS_PER_MS;
use base::addr::Timestamp;
use fact::reduce::budget::{Collected, FaultRate};
use fact::{ProcessId, Tables, ThreadId};

/// Maximum steps of a track: about one per pixel.
const STEPS: u64 = 2_000;
/// Shortest step, in ns: ten samples at 1000 Hz.
const SHORTEST_STEP: u64 = 10_000_000;

/// Name of the CPU's counter.
const CPU: &str = "ngmiProcessCPU";
/// Name of the counter of page faults.
const FAULTS: &str = "ngmiFaults";
/// Name of the counter of page faults that waited for a disk.
const DISK_FAULTS: &str = "ngmiDiskFaults";

/// Adds the tracks of each process that has a shown thread.
pub fn add_to(
    profile: &mut Profile,
    processes: &[ProcessHandle],
    (tables, collected): (&Tables, &Collected),
    (zero, end): (Timestamp, Timestamp),
    shown: &[ThreadId],
) {
    let length = end.0.saturating_sub(zero.0);
    let step = (length / STEPS).max(SHORTEST_STEP);
    let steps = usize::try_from(length.div_ceil(step)).unwrap_or(0).max(1);
    let mut shown: Vec<ProcessId> = shown
        .iter()
        .map(|thread| tables.threads[thread.index()].process)
        .collect();
    shown.sort_unstable();
    shown.dedup();
    for process in shown {
        let Some(handle) = processes.get(process.index()) else {
            continue;
        };
        let mut cpu = vec![0u64; steps];
        for (thread, facts) in tables.threads.iter().zip(&collected.threads) {
            if thread.process != process {
                continue;
            }
            for sample in SampleRows::new(thread, &facts.samples, (zero, end)).iter() {
                spread(&mut cpu, step, sample.time.0.saturating_sub(zero.0), sample.cpu_time);
            }
        }
        let counter = profile.add_counter(*handle, CPU, "CPU", "CPU time of all threads of the process");
        profile.set_counter_color(counter, GraphColor::Grey);
        // The first value has no predecessor and is not drawn: it represents the time before 0.
        profile.add_counter_sample(counter, FxTimestamp::from_nanos_since_reference(0), 0.0, 0);
        for (cpu, index) in cpu.into_iter().zip(1..) {
            let time = FxTimestamp::from_nanos_since_reference(step.saturating_mul(index).min(length.max(1)));
            profile.add_counter_sample(counter, time, cpu as f64 / NS_PER_MS, 0);
        }
        if let Some(rate) = collected.faults.rates.of(process) {
            add_faults(profile, *handle, rate, zero);
        }
    }
}

/// Every fault is counted, even those without a marker because of the budget.
fn add_faults(profile: &mut Profile, process: ProcessHandle, rate: &FaultRate, zero: Timestamp) {
    let all = rate.steps.iter().map(|(step, (faults, _))| (*step, *faults));
    let waited = rate
        .steps
        .iter()
        .map(|(step, (_, waited))| (*step, *waited))
        .filter(|(_, waited)| *waited > 0);
    add_steps(profile, (process, FAULTS, GraphColor::Blue), all, (rate.step, zero));
    add_steps(
        profile,
        (process, DISK_FAULTS, GraphColor::Red),
        waited,
        (rate.step, zero),
    );
}

/// A value covers the time since the previous one, so a zero precedes each step after a gap.
fn add_steps(
    profile: &mut Profile,
    (process, name, color): (ProcessHandle, &str, GraphColor),
    steps: impl Iterator<Item = (u64, u64)>,
    (length, zero): (u64, Timestamp),
) {
    let mut steps = steps.peekable();
    if steps.peek().is_none() {
        return;
    }
    let description = if name == FAULTS {
        "Page faults of all threads of the process"
    } else {
        "Page faults that waited for a disk or for another thread's read"
    };
    let counter = profile.add_counter(process, name, "PageFault", description);
    profile.set_counter_color(counter, color);
    let at = |step: u64| {
        let time = step.saturating_mul(length).saturating_sub(zero.0);
        FxTimestamp::from_nanos_since_reference(time)
    };
    let mut last = None;
    for (step, count) in steps {
        if last != Some(step) {
            if let Some(last) = last {
                // The rate falls to zero within the step after the last one.
                profile.add_counter_sample(counter, at(last.saturating_add(1)), 0.0, 0);
            }
            if last.is_none_or(|last| last.saturating_add(1) < step) {
                profile.add_counter_sample(counter, at(step), 0.0, 0);
            }
        }
        let end = step.saturating_add(1);
        profile.add_counter_sample(counter, at(end), count as f64, 0);
        last = Some(end);
    }
    if let Some(last) = last {
        profile.add_counter_sample(counter, at(last.saturating_add(1)), 0.0, 0);
    }
}

/// A sample's CPU time was used before the sample: it fills the steps backward from there, each up
/// to its length.
fn spread(cpu: &mut [u64], step: u64, time: u64, mut cpu_time: u64) {
    let mut index = usize::try_from(time / step)
        .unwrap_or(usize::MAX)
        .min(cpu.len().saturating_sub(1));
    let mut room = time % step;
    while cpu_time > 0 {
        let Some(slot) = cpu.get_mut(index) else { return };
        let part = if index == 0 { cpu_time } else { cpu_time.min(room) };
        *slot = slot.saturating_add(part);
        cpu_time -= part;
        room = step;
        index = index.saturating_sub(1);
    }
}

/// Describes how the front end draws a counter (format 62 and later; the library writes 55).
pub fn display(counter: &mut Value) {
    let Some(fields) = counter.as_object_mut() else { return };
    let color = fields.remove("color").unwrap_or_else(|| json!("grey"));
    let display = match fields.get("name").and_then(Value::as_str) {
        Some(FAULTS) => fault_display("page faults", &color, 50),
        Some(DISK_FAULTS) => fault_display("page faults (disk)", &color, 51),
        _ => json!({
            "graphType": "line-rate",
            "unit": "percent",
            "color": color,
            "markerSchemaLocation": null,
            "sortWeight": 40,
            "label": "CPU of the process",
            "tooltipRows": [
                // CPU ms per ms is a share of one CPU.
                {"type": "value", "source": "rate", "format": {"unit": "percent"}, "label": "of one CPU"},
            ],
        }),
    };
    fields.insert("display".into(), display);
}

fn fault_display(label: &str, color: &Value, sort_weight: u32) -> Value {
    let row = |source: &str, label: String| json!({"type": "value", "source": source, "format": {"unit": "number"}, "label": label});
    json!({
        "graphType": "line-rate",
        "unit": "",
        "color": color,
        "markerSchemaLocation": null,
        "sortWeight": sort_weight,
        "label": label,
        "tooltipRows": [
            row("rate", format!("{label} per millisecond")),
            row("count", format!("{label} in this step")),
            row("committed-range-total", format!("{label} in the visible range")),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_spread_before_its_sample() {
        let mut cpu = vec![0; 4];
        spread(&mut cpu, 10, 25, 12);
        assert_eq!(cpu, [0, 7, 5, 0]);
        spread(&mut cpu, 10, 3, 8);
        assert_eq!(cpu, [8, 7, 5, 0]);
        spread(&mut cpu, 10, 1000, 2);
        assert_eq!(cpu.iter().sum::<u64>(), 22);
    }
}
