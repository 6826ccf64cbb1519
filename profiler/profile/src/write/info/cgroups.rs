//! The profile-info panel: memory and pressure of cgroups.

use serde_json::Value;

use super::entry;
use base::event::usage::{CgroupUsage, UsageHierarchy, UsageSample};
use base::plural::counted;
use fact::Tables;
use fact::usage::{LimitEvent, limits_reached, peak};

use crate::write::cgroup::names;

/// Maximum number of cgroups in the panel.
const LISTED: usize = 10;

/// The entries of the section; empty if no cgroup was read.
pub fn entries(tables: &Tables) -> Vec<Value> {
    let all = &tables.recording.cgroup_usage;
    let mut entries = Vec::new();
    for (usage, name) in all.iter().zip(names(tables)).take(LISTED) {
        if let Some(peak) = peak(usage) {
            entries.push(entry(&format!("Peak memory of {name}"), "bytes", peak));
        }
        if let Some(limit) = usage.samples.iter().filter_map(UsageSample::limit).next_back() {
            entries.push(entry(&format!("Limit of {name}"), "bytes", limit));
        }
        entries.extend(events(usage).map(|(what, count)| {
            let label = format!("{what} in {name}");
            entry(&label, "string", counted(count, "time"))
        }));
    }
    let has_pressure = |usage: &CgroupUsage| usage.samples.iter().any(|sample| sample.cpu.is_some());
    if !all.is_empty() && !all.iter().any(has_pressure) {
        let why =
            "unknown: cgroups of version 2 are not mounted, or the kernel does not measure it (boot with `psi=1`)";
        entries.push(entry("Pressure", "string", why));
    }
    if all
        .iter()
        .any(|usage| usage.hierarchy == UsageHierarchy::MemoryVersion1)
    {
        let why = "cgroups of version 1, which have neither `memory.high` nor pressure";
        entries.push(entry("Memory controller", "string", why));
    }
    entries
}

/// What happened during the recording, and how often.
fn events(usage: &CgroupUsage) -> impl Iterator<Item = (&'static str, u64)> {
    let count = |event: LimitEvent| {
        let all = limits_reached(usage).filter(|reached| reached.event == event);
        let count = all.fold(0u64, |sum, reached| sum.saturating_add(reached.count));
        (count > 0).then_some((event.words(usage.hierarchy), count))
    };
    LimitEvent::ALL.into_iter().filter_map(count)
}
