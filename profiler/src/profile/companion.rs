//! Companion tracks: the page faults of a process as samples of a thread that never was, so that call tree, flame graph and
//! inverted tree tell who causes them: by the time they took, and by the bytes that they brought.

use serde::{Serialize, Serializer, ser::SerializeMap, ser::SerializeStruct};
use serde_json::{Map, Value, json};

use super::columns::Seq;
use super::fault;
use super::shared::Shared;
use super::{milliseconds, ms};
use crate::addr::Timestamp;
use crate::fact::budget::{Collected, FoldedStack};
use crate::fact::{FaultFact, ProcessId, StackId, Tables};

/// Shortest gap between faults that is drawn, in ns.
const SHORTEST_GAP: u64 = 20_000;
/// Gaps that a whole track could draw: ten a pixel.
const GAPS: u64 = 20_000;

/// What a companion weighs its faults by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Latency.
    Time,
    /// Bytes that came into memory.
    Bytes,
}

impl Weight {
    fn of(self, fault: &FaultFact) -> u64 {
        match self {
            Self::Time => u64::try_from(fault.time().as_nanos()).unwrap_or(u64::MAX),
            Self::Bytes => fault.bytes(),
        }
    }

    fn of_folded(self, folded: &FoldedStack) -> u64 {
        match self {
            Self::Time => folded.latency,
            Self::Bytes => folded.bytes,
        }
    }

    /// In the front end's unit.
    fn value(self, sum: u64) -> Value {
        match self {
            Self::Time => json!(milliseconds(std::time::Duration::from_nanos(sum))),
            Self::Bytes => json!(sum),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Bytes => "bytes",
        }
    }

    /// `WeightType`
    fn unit(self) -> &'static str {
        match self {
            Self::Time => "tracing-ms",
            Self::Bytes => "bytes",
        }
    }
}

/// A companion track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// Whose faults.
    pub process: ProcessId,
    /// By what.
    pub weight: Weight,
    /// Sum of its weights: ns or bytes.
    pub total: u64,
}

/// Every companion that has something to weigh, process by process.
pub fn all(tables: &Tables, collected: &Collected) -> Vec<Companion> {
    let mut sums = vec![[0u64; 2]; tables.processes.len()];
    let faults = collected.threads.iter().flat_map(|thread| &thread.faults);
    let faults = faults.map(|fault| (fault.thread, [Weight::Time.of(fault), Weight::Bytes.of(fault)]));
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

/// Index of the companion that is shown when the profile opens: the command's by time, else the largest by time; where no
/// latency is known, by bytes.
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
    /// The row of `threads`, made of a real thread's row of the same process.
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

/// A companion with the facts that fill it.
pub struct CompanionThread<'a> {
    /// Which.
    pub companion: &'a Companion,
    /// Its row of `threads` without the tables.
    pub row: &'a Map<String, Value>,
    /// Where threads are.
    pub tables: &'a Tables,
    /// Where faults are.
    pub collected: &'a Collected,
    /// Where stacks are.
    pub shared: &'a Shared<'a>,
    /// The profile's first and last moment.
    pub times: (Timestamp, Timestamp),
}

impl Serialize for CompanionThread<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none: [(); 0] = [];
        let markers = json!({
            "length": 0, "category": none, "data": none, "name": none,
            "startTime": none, "endTime": none, "phase": none,
        });
        let mut thread = serializer.serialize_map(None)?;
        for (key, value) in self.row {
            thread.serialize_entry(key, value)?;
        }
        let rows = self.rows();
        let samples = Samples {
            rows: &rows,
            weight: self.companion.weight,
            shared: self.shared,
            zero: self.times.0,
        };
        thread.serialize_entry("samples", &samples)?;
        thread.serialize_entry("markers", &markers)?;
        thread.serialize_entry("ngmiCompanion", &json!({"process": self.companion.process}))?;
        thread.end()
    }
}

/// A fault, or folded ones.
#[derive(Debug, Clone, Copy)]
struct Item {
    start: Timestamp,
    end: Timestamp,
    stack: Option<StackId>,
    weight: u64,
}

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    time: Timestamp,
    stack: Option<StackId>,
    weight: u64,
}

impl CompanionThread<'_> {
    fn rows(&self) -> Vec<Row> {
        let Companion { process, weight, .. } = *self.companion;
        let threads = self.tables.threads.iter().zip(&self.collected.threads);
        let faults = threads.filter(|(thread, _)| thread.process == process);
        let faults = faults.flat_map(|(_, facts)| &facts.faults).map(|fault| Item {
            start: fault.start,
            end: fault::end(fault).unwrap_or(fault.start),
            stack: fault.stack,
            weight: weight.of(fault),
        });
        let of_process = |folded: &&FoldedStack| {
            let thread = self.tables.threads.get(folded.thread.index());
            thread.is_some_and(|thread| thread.process == process)
        };
        let folded = self.collected.folded_stacks.iter().filter(of_process);
        let folded = folded.map(|folded| Item {
            start: folded.time,
            end: folded.time,
            stack: folded.stack,
            weight: weight.of_folded(folded),
        });
        let mut items: Vec<Item> = faults.chain(folded).filter(|item| item.weight > 0).collect();
        items.sort_by_key(|item| (item.end, item.start));
        lay_out(&items, self.times)
    }
}

/// A sample at the end of each item. The front end draws a sample half way to its neighbours and at full height: so a long
/// item has a sample without weight at its start, and one without a stack stands on either side of a gap.
fn lay_out(items: &[Item], (zero, end): (Timestamp, Timestamp)) -> Vec<Row> {
    let gap = (end.0.saturating_sub(zero.0) / GAPS).max(SHORTEST_GAP);
    let empty = |time| Row {
        time: Timestamp(time),
        stack: None,
        weight: 0,
    };
    let mut rows = Vec::with_capacity(items.len());
    let mut last: Option<u64> = None;
    for item in items {
        let start = item.start.0.max(last.unwrap_or(zero.0));
        if last.is_none_or(|last| start - last > gap) {
            rows.extend(last.map(|last| empty(last + gap / 2)));
            rows.push(empty(start.saturating_sub(gap / 2).max(zero.0)));
        }
        if item.end.0.saturating_sub(start) > gap {
            let begin = Timestamp(start);
            rows.push(Row {
                time: begin,
                stack: item.stack,
                weight: 0,
            });
        }
        let time = Timestamp(item.end.0.max(start));
        rows.push(Row {
            time,
            stack: item.stack,
            weight: item.weight,
        });
        last = Some(time.0);
    }
    rows.extend(last.map(|last| empty(last.saturating_add(gap / 2).min(end.0.max(last)))));
    rows
}

struct Samples<'a> {
    rows: &'a [Row],
    weight: Weight,
    shared: &'a Shared<'a>,
    zero: Timestamp,
}

impl Serialize for Samples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.rows.iter();
        let mut table = serializer.serialize_struct("samples", 5)?;
        table.serialize_field("length", &self.rows.len())?;
        table.serialize_field("weightType", self.weight.unit())?;
        let stack = |row: &Row| row.stack.and_then(|stack| self.shared.stack_row(stack));
        table.serialize_field("stack", &Seq(rows.clone().map(stack)))?;
        let deltas = rows.clone().scan(self.zero, |last, row| {
            let delta = ms(row.time, *last);
            *last = row.time;
            Some(delta)
        });
        table.serialize_field("timeDeltas", &Seq(deltas))?;
        table.serialize_field("weight", &Seq(rows.map(|row| self.weight.value(row.weight))))?;
        table.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: (Timestamp, Timestamp) = (Timestamp(1_000_000), Timestamp(2_000_000));

    fn item(start: u64, end: u64) -> Item {
        Item {
            start: Timestamp(start),
            end: Timestamp(end),
            stack: Some(StackId(0)),
            weight: end - start,
        }
    }

    #[test]
    fn gaps_are_empty_and_long_faults_have_two_ends() {
        let rows = lay_out(&[item(1_000_100, 1_000_300), item(1_500_000, 1_600_000)], TIMES);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (row.time.0 - TIMES.0.0, row.stack.is_some(), row.weight))
            .collect();
        let expected = [
            (0, false, 0),
            (300, true, 200),
            (10_300, false, 0),
            (490_000, false, 0),
            (500_000, true, 0),
            (600_000, true, 100_000),
            (610_000, false, 0),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn faults_of_threads_at_the_same_time_stay_in_order() {
        let items = [
            item(1_100_000, 1_200_000),
            item(1_000_000, 1_300_000),
            item(1_900_000, 2_100_000),
        ];
        let rows = lay_out(&items, TIMES);
        assert!(rows.is_sorted_by_key(|row| row.time));
        assert_eq!(rows.iter().map(|row| row.weight).sum::<u64>(), 600_000);
    }
}
