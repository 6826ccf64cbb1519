//! Companion tracks: the page faults of a process as samples of a synthetic thread, so call tree,
//! flame graph and inverted tree show what causes them, weighted by their time and by the bytes
//! that they read. The track by time also has the slowest faults as markers.

use serde::{Serialize, Serializer, ser::SerializeMap, ser::SerializeStruct};
use serde_json::{Map, Value, json};

use super::markers::MarkerNames;
use super::peaks::{self, Peak};
use super::skeleton::ThreadRow;
use super::track::{Item, Samples, TrackRow, Weight, lay_out};
use crate::marker::peak::LatencyPayload;
use crate::marker::{PHASE_INTERVAL, fault};
use crate::shared::Shared;
use crate::shared::categories::Category;
use crate::shared::columns::{Column, Repeat, Seq};
use crate::units::ms;
use base::addr::{Timestamp, ns};
use fact::reduce::budget::{Collected, FoldedStack};
use fact::reduce::packed::PackedRef;
use fact::{FaultFact, ProcessId, Tables};

impl Weight {
    fn of(self, fault: &FaultFact) -> u64 {
        match self {
            Self::Time => ns(fault.total_time()),
            Self::Bytes => fault.total_bytes(),
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
    let faults = faults.map(|fault| (fault.thread, [Weight::Time.of(&fault), Weight::Bytes.of(&fault)]));
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

/// A companion with the facts for its samples.
pub struct CompanionThread<'a> {
    /// The companion.
    pub companion: &'a Companion,
    /// Its row of `threads` without tables.
    pub row: &'a ThreadRow,
    /// All threads.
    pub tables: &'a Tables,
    /// The facts with the faults.
    pub collected: &'a Collected,
    /// The tables with the stacks.
    pub shared: &'a Shared<'a>,
    /// Names and flows of markers.
    pub names: &'a MarkerNames<'a>,
    /// Start and end of the profile.
    pub times: (Timestamp, Timestamp),
}

impl Serialize for CompanionThread<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut thread = serializer.serialize_map(None)?;
        for (key, value) in self.row.fields() {
            thread.serialize_entry(&key, &value)?;
        }
        let rows = self.rows();
        let samples = Samples {
            rows: &rows,
            weight: self.companion.weight,
            zero: self.times.0,
        };
        thread.serialize_entry("samples", &samples)?;
        thread.serialize_entry("markers", &self.markers())?;
        thread.serialize_entry("ngmiCompanion", &json!({"process": self.companion.process}))?;
        thread.end()
    }
}

impl CompanionThread<'_> {
    fn faults(&self) -> impl Iterator<Item = PackedRef<'_>> {
        let threads = self.tables.threads.iter().zip(&self.collected.threads);
        let of_process = threads.filter(|(thread, _)| thread.process == self.companion.process);
        of_process.flat_map(|(_, facts)| facts.faults.refs())
    }

    /// The slowest faults, if one of them waited for a disk: the others take no visible time.
    fn markers(&self) -> Markers<'_> {
        let rate = self.collected.faults.rates.of(self.companion.process);
        let has_waited = rate.is_some_and(|rate| rate.steps.values().any(|(_, waited)| *waited > 0));
        let is_shown = self.companion.weight == Weight::Time && has_waited;
        let faults = self.faults().filter(|_| is_shown).map(|fault| Peak {
            time: fault.start(),
            value: ns(fault.fact().time()),
            fact: fault,
        });
        Markers {
            rows: peaks::greatest(faults, self.times),
            thread: self,
        }
    }

    fn rows(&self) -> Vec<TrackRow> {
        let row = |stack| self.shared.stack_row(stack);
        let Companion { process, weight, .. } = *self.companion;
        let faults = self.faults().map(|fault| fault.fact()).map(|fault| Item {
            start: fault.start,
            end: fault::end(&fault).unwrap_or(fault.start),
            stack: row(fault.stack),
            weight: weight.of(&fault),
        });
        let of_process = |folded: &&FoldedStack| {
            let thread = self.tables.threads.get(folded.thread.index());
            thread.is_some_and(|thread| thread.process == process)
        };
        let folded = self.collected.folded_stacks.iter().filter(of_process);
        let folded = folded.map(|folded| Item {
            start: folded.time,
            end: folded.time,
            stack: row(folded.stack),
            weight: weight.of_folded(folded),
        });
        lay_out(faults.chain(folded).collect(), self.times)
    }
}

/// The `markers` table: starts ascending.
struct Markers<'a> {
    rows: Vec<Peak<PackedRef<'a>>>,
    thread: &'a CompanionThread<'a>,
}

impl Serialize for Markers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CompanionThread {
            tables, names, times, ..
        } = *self.thread;
        let rows = self.rows.as_slice();
        let data = |peak: &Peak<PackedRef<'_>>| {
            let fault = peak.fact.fact();
            LatencyPayload::new(&fault, tables, names.flows.of_fault(&fault))
        };
        let end = |peak: &Peak<PackedRef<'_>>| fault::end(&peak.fact.fact()).unwrap_or(peak.time);
        let mut table = serializer.serialize_struct("markers", 7)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("category", &Repeat(Category::Fault as u8, rows.len()))?;
        table.serialize_field("data", &Seq(rows.iter().map(data)))?;
        table.serialize_field("name", &Repeat(names.peaks[0], rows.len()))?;
        table.serialize_field("startTime", &Column(rows, |peak: &Peak<_>| ms(peak.time, times.0)))?;
        table.serialize_field("endTime", &Column(rows, |peak: &Peak<_>| ms(end(peak), times.0)))?;
        table.serialize_field("phase", &Repeat(PHASE_INTERVAL, rows.len()))?;
        table.end()
    }
}
