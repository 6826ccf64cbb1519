//! Companion tracks: the page faults of a process as samples of a synthetic thread, so call tree,
//! flame graph and inverted tree show what causes them, weighted by their time and by the bytes
//! that they read. The track by time also has the slowest faults as markers.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Whole;
use super::peaks::{self, Peak};
use super::skeleton::ThreadRow;
use super::track::{Item, TrackMarker, TrackRow, TrackThread, Weight, lay_out};
use crate::marker::fault;
use crate::marker::peak::LatencyPayload;
use crate::shared::categories::Category;
use base::addr::ns;
use fact::reduce::budget::{Collected, FoldedStack};
use fact::reduce::packed::PackedRef;
use fact::{FaultFact, ProcessId, Tables};

impl Weight {
    fn of(self, fault: &FaultFact, page: u64) -> u64 {
        match self {
            Self::Time => ns(fault.total_time()),
            Self::Bytes => fault.total_bytes(page),
        }
    }

    fn of_folded(self, folded: &FoldedStack) -> u64 {
        match self {
            Self::Time => folded.latency,
            Self::Bytes => folded.bytes,
        }
    }
}

/// A companion track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// The process whose faults are shown.
    pub process: ProcessId,
    /// How the faults are weighted.
    pub weight: Weight,
    /// Sum of its weights, in ns or bytes.
    pub total: u64,
}

/// All companion tracks with a nonzero weight, process by process.
pub fn all(tables: &Tables, collected: &Collected) -> Vec<Companion> {
    let mut sums = vec![[0u64; 2]; tables.processes.len()];
    let faults = collected.threads.iter().flat_map(|thread| thread.faults.iter());
    let page = tables.recording.page();
    let faults = faults.map(|fault| {
        let weights = [Weight::Time, Weight::Bytes].map(|weight| weight.of(&fault, page));
        (fault.thread, weights)
    });
    let folded = collected.folded_stacks.iter();
    let folded = folded.map(|folded| (folded.thread, [folded.latency, folded.bytes]));
    for (thread, weights) in faults.chain(folded) {
        let process = tables.threads.get(thread.index()).map(|thread| thread.process.index());
        if let Some(sums) = process.and_then(|process| sums.get_mut(process)) {
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = sum.saturating_add(weight);
            }
        }
    }
    let companions = sums.into_iter().zip((0..).map(ProcessId)).flat_map(|(sums, process)| {
        let of = move |(weight, total)| Companion { process, weight, total };
        [Weight::Time, Weight::Bytes].into_iter().zip(sums).map(of)
    });
    companions.filter(|companion| companion.total > 0).collect()
}

/// Index of the companion that is visible when the profile opens: the command's by time, or else
/// the largest by time; if no latency is known, by bytes.
pub fn shown(tables: &Tables, companions: &[Companion]) -> Option<usize> {
    let command = tables.command_process();
    let of = |weight: Weight| companions.iter().enumerate().filter(move |(_, c)| c.weight == weight);
    let best = |weight: Weight| {
        let commands = of(weight).find(|(_, companion)| Some(companion.process) == command);
        commands.or_else(|| of(weight).max_by_key(|(_, companion)| companion.total))
    };
    best(Weight::Time)
        .or_else(|| best(Weight::Bytes))
        .map(|(index, _)| index)
}

impl Companion {
    /// The row of `threads`, built from the row of a real thread in the same process.
    pub fn row(&self, of_process: &Map<String, Value>) -> Map<String, Value> {
        let mut row = of_process.clone();
        let text = |key: &str| of_process.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = format!("page faults by {}: {}", self.weight.name(), text("processName"));
        let tid = format!("{}-faults-{}", text("pid"), self.weight.name());
        for (key, value) in [
            ("name", json!(name)),
            ("tid", json!(tid)),
            ("isMainThread", json!(false)),
            ("showMarkersInTimeline", json!(false)),
        ] {
            row.insert(key.into(), value);
        }
        for (life, process) in [
            ("registerTime", "processStartupTime"),
            ("unregisterTime", "processShutdownTime"),
        ] {
            row.insert(life.into(), of_process.get(process).cloned().unwrap_or_default());
        }
        row
    }
}

/// The track of a companion.
pub fn thread<'a>(whole: &'a Whole<'a>, companion: &Companion, row: &'a ThreadRow) -> impl Serialize {
    TrackThread {
        row,
        samples: samples(whole, companion).into(),
        weight: companion.weight,
        markers: markers(whole, companion),
        category: Category::Fault,
        payload: |fault: &PackedRef<'_>| {
            let fault = fault.fact();
            LatencyPayload::new(&fault, whole.tables, whole.names.flows.of_fault(&fault))
        },
        shows: json!({"process": companion.process}),
        zero: whole.zero,
    }
}

fn faults<'a>(whole: &Whole<'a>, process: ProcessId) -> impl Iterator<Item = PackedRef<'a>> {
    let threads = whole.tables.threads.iter().zip(&whole.collected.threads);
    let of_process = threads.filter(move |(thread, _)| thread.process == process);
    of_process.flat_map(|(_, facts)| facts.faults.refs())
}

/// The slowest faults, if one of them waited for a disk: the others take no visible time.
fn markers<'a>(whole: &Whole<'a>, companion: &Companion) -> Vec<TrackMarker<PackedRef<'a>>> {
    let rate = whole.collected.faults.rates.of(companion.process);
    let has_waited = rate.is_some_and(|rate| rate.steps.values().any(|(_, waited)| *waited > 0));
    if companion.weight != Weight::Time || !has_waited {
        return Vec::new();
    }
    let slow = faults(whole, companion.process).map(|fault| Peak {
        time: fault.start(),
        value: ns(fault.fact().time()),
        fact: fault,
    });
    let slowest = peaks::greatest(slow, (whole.zero, whole.end)).into_iter();
    let marker = |peak: Peak<PackedRef<'a>>| TrackMarker {
        fact: peak.fact,
        name: whole.names.peaks[0],
        start: peak.time,
        end: Some(fault::end(&peak.fact.fact()).unwrap_or(peak.time)),
    };
    slowest.map(marker).collect()
}

fn samples(whole: &Whole<'_>, companion: &Companion) -> Vec<TrackRow> {
    let row = |stack| whole.shared.stack_row(stack);
    let Companion { process, weight, .. } = *companion;
    let page = whole.tables.recording.page();
    let faults = faults(whole, process).map(|fault| fault.fact()).map(|fault| Item {
        start: fault.start,
        end: fault::end(&fault).unwrap_or(fault.start),
        stack: row(fault.stack),
        weight: weight.of(&fault, page),
    });
    let of_process = |folded: &&FoldedStack| {
        let thread = whole.tables.threads.get(folded.thread.index());
        thread.is_some_and(|thread| thread.process == process)
    };
    let folded = whole.collected.folded_stacks.iter().filter(of_process);
    let folded = folded.map(|folded| Item {
        start: folded.time,
        end: folded.time,
        stack: row(folded.stack),
        weight: weight.of_folded(folded),
    });
    lay_out(faults.chain(folded).collect(), (whole.zero, whole.end))
}
