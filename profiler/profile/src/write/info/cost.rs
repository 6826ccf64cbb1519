//! The profile-info panel: the cost of the recording.

use serde_json::Value;

use super::{entry, ms};
use base::addr::Timestamp;
use base::event::{ProcessCost, ProgramCosts, Thinning};
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
        steps_of(thinning, recording.start, &mut entries);
    }
    entries
}

fn steps_of(thinning: &Thinning, zero: Timestamp, entries: &mut Vec<Value>) {
    entries.push(entry(
        "Limit in the kernel",
        "percentage",
        f64::from(thinning.limit) / 10_000.0,
    ));
    let more = thinning.steps.len().saturating_sub(STEPS);
    let earlier = thinning.earlier_steps.saturating_add(more as u64);
    if earlier > 0 {
        entries.push(entry("Earlier changes of what was left out", "integer", earlier));
    }
    for step in thinning.steps.iter().skip(more) {
        let label = format!("Left out from {:.3} s on", step.time.since(zero).as_secs_f64());
        let [faults, waits, samples] = step.divisors();
        let mut parts = Vec::new();
        if faults > 1 {
            parts.push(format!("callers of all but 1/{faults} of short faults"));
        }
        if waits > 1 {
            parts.push(format!("walks of frequent waits (level 1/{waits})"));
        }
        if samples > 1 {
            parts.push(format!("all but 1/{samples} of samples"));
        }
        let what = if parts.is_empty() {
            "nothing".to_owned()
        } else {
            parts.join(", ")
        };
        let share = f64::from(step.share) / 100.0;
        entries.push(entry(&label, "string", format!("{what}; before: {share:.1} %")));
    }
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
