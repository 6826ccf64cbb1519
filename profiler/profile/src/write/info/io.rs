//! The profile-info panel: waits and block requests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::super::flows;
use super::{complete_stacks, entry, ms};
use crate::marker::words;
use base::plural::counted;
use fact::reduce::budget::{Collected, WaitSum};
use fact::{DeviceId, Recording, Tables, WaitReason};

/// The sections on waits and requests; empty if neither was recorded.
pub fn sections(tables: &Tables, collected: &Collected) -> Vec<(&'static str, Vec<Value>)> {
    let sections = [
        ("Waits", waits(&tables.recording, collected)),
        ("Block requests", requests(tables, collected)),
    ];
    sections
        .into_iter()
        .filter(|(_, entries)| !entries.is_empty())
        .collect()
}

fn waits(recording: &Recording, collected: &Collected) -> Vec<Value> {
    if collected.waits.is_empty() {
        return Vec::new();
    }
    let mut sums: BTreeMap<WaitReason, WaitSum> = BTreeMap::new();
    for ((_, reason), more) in &collected.waits {
        sums.entry(*reason).or_default().join(more);
    }
    let total = |of: fn(&WaitSum) -> u64| sums.values().fold(0u64, |sum, more| sum.saturating_add(of(more)));
    let mut entries = vec![
        entry("Waits", "integer", recording.waits_seen),
        entry("Off-CPU time, all threads", "duration", ms(total(|sum| sum.off))),
        entry("Of that, waiting for a CPU", "duration", ms(total(|sum| sum.queued))),
    ];
    entries.extend(complete_stacks(&recording.wait_stack_ends));
    for reason in WaitReason::ALL {
        let Some(sum) = sums.get(&reason) else { continue };
        let idle = if reason.is_idle() { " (idle)" } else { "" };
        let label = format!("Waited for {}{idle}", words::reason(reason));
        let time = Duration::from_nanos(sum.off);
        let waits = counted(sum.waits, "time");
        entries.push(entry(&label, "string", format!("{waits}, {time:.1?}")));
    }
    for reason in WaitReason::ALL {
        let folded = recording.folded_waits.iter().filter(|folded| folded.reason == reason);
        let (waits, off) = folded.fold((0u64, 0u64), |(waits, off), folded| {
            (waits.saturating_add(folded.waits), off.saturating_add(folded.off))
        });
        if waits > 0 {
            let label = format!("Aggregated: {}", words::reason(reason));
            let time = Duration::from_nanos(off);
            entries.push(entry(&label, "string", format!("{waits} in {time:.1?}")));
        }
    }
    let left_out = flows::left_out(collected);
    if left_out > 0 {
        entries.push(entry("Wake-ups without markers", "integer", left_out));
    }
    entries
}

fn requests(tables: &Tables, collected: &Collected) -> Vec<Value> {
    let mut entries = Vec::new();
    for (device, totals) in &collected.request_totals {
        let name = words::device(tables, *device);
        let errors = match totals.errors {
            0 => String::new(),
            errors => format!(", {errors} failed"),
        };
        let unfinished = match totals.unfinished {
            0 => String::new(),
            unfinished => format!(", {unfinished} unfinished"),
        };
        let text = format!(
            "{}{errors}, {} read, {} written{unfinished}",
            counted(totals.requests, "request"),
            words::size(totals.read),
            words::size(totals.written)
        );
        entries.push(entry(&name, "string", text));
        let folded = folded(&tables.recording, *device);
        if folded > 0 {
            let label = format!("{name}: without individual markers");
            entries.push(entry(&label, "integer", folded));
        }
    }
    entries
}

fn folded(recording: &Recording, device: DeviceId) -> u64 {
    let of_device = recording
        .folded_requests
        .iter()
        .filter(|folded| folded.device == device);
    of_device.fold(0, |sum, folded| sum.saturating_add(folded.requests))
}
