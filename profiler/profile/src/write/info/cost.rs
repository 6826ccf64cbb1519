//! The profile-info panel: the cost of the recording.

use serde_json::Value;

use super::{entry, ms};
use base::event::{ProcessCost, ProgramCosts};
use fact::Recording;

/// Maximum number of programs listed: those that took the most time.
const PROGRAMS: usize = 8;
/// Maximum number of steps of thinning listed.
const STEPS: usize = 12;

/// The entries of the section; empty if the cost is unknown.
pub fn entries(recording: &Recording) -> Vec<Value> {
    let Some(cost) = &recording.cost else {
        return Vec::new();
    };
    let mut entries = Vec::new();
    if let Some(programs) = &cost.programs {
        programs_of(programs, recording.cpu_time_seen, &mut entries);
    }
    if let Some(refused) = &cost.programs_refused {
        entries.push(entry("In the kernel", "string", refused));
    }
    add_process("Privileged helper", cost.capture, &mut entries);
    add_process("Recorder", cost.record, &mut entries);
    if let Some(ring) = cost.ring {
        entries.push(entry("Event ring", "bytes", ring.bytes));
        entries.push(entry("Event ring: peak use", "bytes", ring.peak_bytes));
    }
    if let Some(bytes) = cost.log_bytes {
        entries.push(entry("Event log", "bytes", bytes));
    }
    if let Some(thinning) = &cost.thinning {
        entries.push(entry("Limit", "percentage", f64::from(thinning.limit) / 10_000.0));
        let zero = recording.start;
        for step in thinning.steps.iter().take(STEPS) {
            let [faults, waits, samples] = step.levels.map(|level| 1_u64 << level.min(63));
            let label = format!("Left out from {:.3} s on", step.time.since(zero).as_secs_f64());
            let share = f64::from(step.share) / 100.0;
            let text = format!(
                "walked: 1/{faults} of short faults, 1/{waits} of frequent waits; taken: 1/{samples} of samples (at {share:.1} %)"
            );
            entries.push(entry(&label, "string", text));
        }
    }
    entries
}

fn programs_of(costs: &ProgramCosts, cpu_time: u64, entries: &mut Vec<Value>) {
    let total = costs.total_ns();
    entries.push(entry("In the kernel", "duration", ms(total)));
    if cpu_time > 0 {
        // Includes time for threads that are not recorded, but excludes the kernel's overhead of
        // calling the programs.
        entries.push(entry(
            "Estimated slowdown: time in the kernel of the recorded threads' CPU time",
            "percentage",
            total as f64 / cpu_time as f64,
        ));
    }
    if !costs.is_exact() {
        let share = costs.counted_ns as f64 / costs.of_ns.max(1) as f64;
        entries.push(entry("Share of the time that was measured", "percentage", share));
    }
    let mut programs: Vec<_> = costs.programs.iter().filter(|program| program.runs > 0).collect();
    programs.sort_by_key(|program| std::cmp::Reverse(program.time_ns));
    for program in programs.into_iter().take(PROGRAMS) {
        let mean = program.time_ns / program.runs.max(1);
        let text = format!("{:.1} ms in {} runs of {mean} ns", ms(program.time_ns), program.runs);
        entries.push(entry(&format!("In the kernel: {}", program.name), "string", text));
    }
}

fn add_process(name: &str, cost: Option<ProcessCost>, entries: &mut Vec<Value>) {
    let Some(cost) = cost else { return };
    for (when, time) in [
        ("before", cost.before_ns),
        ("while recording", cost.during_ns),
        ("after", cost.after_ns),
    ] {
        entries.push(entry(&format!("{name}: CPU time {when}"), "duration", ms(time)));
    }
    entries.push(entry(&format!("{name}: peak memory"), "bytes", cost.peak_rss_bytes));
}
