//! A track of each shown process with the CPU time of all its threads: 250 % is two and a half CPUs.

use fxprof_processed_profile::{GraphColor, ProcessHandle, Profile, Timestamp as FxTimestamp};
use serde_json::{Value, json};

use super::NS_PER_MS;
use super::sample::Rows;
use crate::addr::Timestamp;
use crate::fact::budget::Collected;
use crate::fact::{ProcessId, Tables, ThreadId};

/// Steps of the longest track: about one a pixel.
const STEPS: u64 = 2_000;
/// Shortest step, in ns: ten samples at 1000 Hz.
const SHORTEST_STEP: u64 = 10_000_000;

/// Adds the track of each process that has a shown thread.
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
            for sample in Rows::new(thread, &facts.samples, (zero, end)).iter() {
                spread(&mut cpu, step, sample.time.0.saturating_sub(zero.0), sample.cpu_time);
            }
        }
        let counter = profile.add_counter(
            *handle,
            "ngmiProcessCPU",
            "CPU",
            "CPU time of all threads of the process",
        );
        profile.set_counter_color(counter, GraphColor::Grey);
        // The first value has no predecessor and is not drawn: it stands for the time before 0.
        profile.add_counter_sample(counter, FxTimestamp::from_nanos_since_reference(0), 0.0, 0);
        for (cpu, index) in cpu.into_iter().zip(1..) {
            let time = FxTimestamp::from_nanos_since_reference(step.saturating_mul(index).min(length.max(1)));
            profile.add_counter_sample(counter, time, cpu as f64 / NS_PER_MS, 0);
        }
    }
}

/// A sample's CPU time was used before it: it fills the steps backward from the sample's, each up to its length.
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

/// Says how the front end draws a counter (format 62 and later; the library writes 55).
pub fn display(counter: &mut Value) {
    let Some(fields) = counter.as_object_mut() else { return };
    let color = fields.remove("color").unwrap_or_else(|| json!("grey"));
    fields.insert(
        "display".into(),
        json!({
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
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_fills_the_steps_before_its_sample_and_none_is_lost() {
        let mut cpu = vec![0; 4];
        spread(&mut cpu, 10, 25, 12);
        assert_eq!(cpu, [0, 7, 5, 0]);
        spread(&mut cpu, 10, 3, 8);
        assert_eq!(cpu, [8, 7, 5, 0]);
        spread(&mut cpu, 10, 1000, 2);
        assert_eq!(cpu.iter().sum::<u64>(), 22);
    }
}
