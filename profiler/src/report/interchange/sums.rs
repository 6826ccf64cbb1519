//! Sums by stack, thread and what was measured: each format that knows stacks is written from these.
//!
//! They add up to what the verbs tell: `ngmi faults`, `ngmi waits`, `ngmi io`, and the CPU time of `ngmi convert --json`.

use rustc_hash::FxHashMap;

use crate::addr::ns;
use crate::fact::fault::FaultClass;
use crate::fact::reasons::refined;
use crate::fact::request::{Operation, RequestSight};
use crate::fact::{
    BioFact, DeviceId, FactSink, FaultFact, MappedFileId, Mark, RequestFact, SampleFact, StackId, Tables, ThreadId,
    WaitFact, WaitReason,
};
use crate::report::io::select::bases;

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// CPU samples.
    Samples,
    /// Page faults.
    Faults,
    /// Block requests.
    Requests,
    /// Waits.
    Waits,
}

impl Table {
    /// Every table, in the order of help.
    pub const ALL: [Self; 4] = [Self::Samples, Self::Faults, Self::Requests, Self::Waits];

    /// As `--table` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Faults => "faults",
            Self::Requests => "requests",
            Self::Waits => "waits",
        }
    }

    /// What is measured of it: weight, name and unit, as formats with sample types name them.
    pub const fn measures(self) -> &'static [(Weight, &'static str, &'static str)] {
        match self {
            Self::Samples => &[
                (Weight::Count, "samples", "count"),
                (Weight::Time, "cpu", "nanoseconds"),
            ],
            Self::Faults => &[
                (Weight::Count, "faults", "count"),
                (Weight::Time, "fault_time", "nanoseconds"),
                (Weight::Bytes, "fault_bytes", "bytes"),
            ],
            Self::Requests => &[
                (Weight::Count, "ios", "count"),
                (Weight::Time, "io_time", "nanoseconds"),
                (Weight::Bytes, "io_bytes", "bytes"),
            ],
            Self::Waits => &[
                (Weight::Count, "waits", "count"),
                (Weight::Time, "off_cpu", "nanoseconds"),
            ],
        }
    }
}

/// What stacks are weighed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weight {
    /// Time, in ns.
    #[default]
    Time,
    /// How many.
    Count,
    /// Bytes.
    Bytes,
}

impl Weight {
    /// Every weight, in the order of help.
    pub const ALL: [Self; 3] = [Self::Time, Self::Count, Self::Bytes];

    /// As `--weight` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// A recorded thread.
    Thread(ThreadId),
    /// Another, by its name: index into the names.
    Other(u32),
    /// Nobody was seen.
    Nobody,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// Time on a CPU.
    Sample,
    /// A page fault.
    Fault(FaultClass),
    /// A wait.
    Wait(WaitReason),
    /// A part of a request.
    Io(DeviceId, Operation),
}

impl What {
    /// The table that it is of.
    pub fn table(self) -> Table {
        match self {
            Self::Sample => Table::Samples,
            Self::Fault(_) => Table::Faults,
            Self::Wait(_) => Table::Waits,
            Self::Io(..) => Table::Requests,
        }
    }
}

/// What is summed up together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// What was measured.
    pub what: What,
    /// Who did it.
    pub who: Who,
    /// Where it was.
    pub stack: Option<StackId>,
    /// The file that it is about.
    pub file: Option<MappedFileId>,
}

/// What it amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Their time, in ns.
    pub time: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Sum {
    fn add(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.time = self.time.saturating_add(more.time);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }

    /// In one of its measures.
    pub fn of(self, weight: Weight) -> u64 {
        match weight {
            Weight::Time => self.time,
            Weight::Count => self.count,
            Weight::Bytes => self.bytes,
        }
    }
}

/// Takes the facts of the wanted tables and sums them up. Grows with what is distinct.
#[derive(Debug, Default)]
pub struct Sums {
    wanted: Vec<Table>,
    by_key: FxHashMap<Key, Sum>,
    names: Vec<String>,
    known: FxHashMap<String, u32>,
}

impl Sums {
    /// Of these tables.
    pub fn new(wanted: &[Table]) -> Self {
        Self {
            wanted: wanted.to_vec(),
            ..Self::default()
        }
    }

    /// The tables that are summed up.
    pub fn tables(&self) -> &[Table] {
        &self.wanted
    }

    /// How many facts of a table there are.
    pub fn count(&self, table: Table) -> u64 {
        let of_table = self.by_key.iter().filter(|(key, _)| key.what.table() == table);
        of_table.fold(0, |sum, (_, more)| sum.saturating_add(more.count))
    }

    /// The name of one that is not recorded.
    pub fn name(&self, other: u32) -> &str {
        self.names.get(other as usize).map_or("", String::as_str)
    }

    /// The sums, in an order that is the same each time, with what only the finished tables can say.
    pub fn finish(&mut self, tables: &Tables) -> Vec<(Key, Sum)> {
        if self.wanted.contains(&Table::Samples) {
            self.rest_of_cpu_time(tables);
        }
        let counted = self.devices(tables);
        let mut finished: FxHashMap<Key, Sum> = FxHashMap::default();
        for (mut key, sum) in self.by_key.drain() {
            match &mut key.what {
                What::Io(device, _) if !counted.get(device.index()).copied().unwrap_or(true) => continue,
                What::Wait(reason) => *reason = refined(tables, key.stack, *reason),
                _ => {}
            }
            finished.entry(key).or_default().add(sum);
        }
        let mut finished: Vec<(Key, Sum)> = finished.into_iter().collect();
        finished.sort_unstable_by_key(|(key, _)| *key);
        finished
    }

    /// What a thread ran after its last sample has no stack.
    fn rest_of_cpu_time(&mut self, tables: &Tables) {
        for (thread, id) in tables.threads.iter().zip((0..).map(ThreadId)) {
            if thread.cpu_time_after_last_sample > 0 {
                let sum = Sum {
                    time: thread.cpu_time_after_last_sample,
                    ..Sum::default()
                };
                self.add(What::Sample, Who::Thread(id), None, None, sum);
            }
        }
    }

    /// By device: its requests count. What a device made of others is asked for, they are asked for again.
    fn devices(&self, tables: &Tables) -> Vec<bool> {
        let mut has_some = vec![false; tables.devices.len()];
        for key in self.by_key.keys() {
            if let What::Io(device, _) = key.what
                && let Some(has) = has_some.get_mut(device.index())
            {
                *has = true;
            }
        }
        bases(&tables.devices, &has_some)
    }

    fn wants(&self, table: Table) -> bool {
        self.wanted.contains(&table)
    }

    fn add(&mut self, what: What, who: Who, stack: Option<StackId>, file: Option<MappedFileId>, sum: Sum) {
        let key = Key { what, who, stack, file };
        self.by_key.entry(key).or_default().add(sum);
    }

    fn who(&mut self, bio: &BioFact) -> Who {
        match bio.thread {
            Some(thread) => Who::Thread(thread),
            None if bio.name.is_empty() => Who::Nobody,
            None => {
                // Workers of the kernel do everybody's work in turn: their numbers say nothing.
                let name = match bio.name.split_once('/') {
                    Some(("kworker", _)) => "kworker",
                    _ => &bio.name,
                };
                if let Some(known) = self.known.get(name) {
                    return Who::Other(*known);
                }
                let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                self.names.push(name.to_owned());
                self.known.insert(name.to_owned(), next);
                Who::Other(next)
            }
        }
    }
}

impl FactSink for Sums {
    fn sample(&mut self, _: &Tables, sample: &SampleFact) {
        if self.wants(Table::Samples) {
            let sum = Sum {
                count: u64::from(sample.weight),
                time: ns(sample.cpu_time),
                bytes: 0,
            };
            self.add(What::Sample, Who::Thread(sample.thread), sample.stack, None, sum);
        }
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn fault(&mut self, _: &Tables, fault: &FaultFact) {
        if self.wants(Table::Faults) {
            let sum = Sum {
                count: 1,
                time: ns(fault.time()),
                bytes: fault.bytes(),
            };
            let (who, file) = (Who::Thread(fault.thread), fault.place.map(|place| place.file));
            self.add(What::Fault(fault.class), who, fault.stack, file, sum);
        }
    }

    fn wait(&mut self, _: &Tables, wait: &WaitFact) {
        if self.wants(Table::Waits) {
            let sum = Sum {
                count: u64::from(wait.count),
                time: ns(wait.off),
                bytes: 0,
            };
            let file = wait.call.as_ref().and_then(|call| call.file);
            self.add(What::Wait(wait.reason), Who::Thread(wait.thread), wait.stack, file, sum);
        }
    }

    /// As `ngmi io` counts: each part of a request, and what is left of it, if anything.
    fn request(&mut self, _: &Tables, request: &RequestFact) {
        if !self.wants(Table::Requests) || request.sight == RequestSight::NoEnd {
            return;
        }
        let what = What::Io(request.device, request.operation);
        let moved = |bytes: u64| if request.operation.moves_bytes() { bytes } else { 0 };
        let mut left = u64::from(request.bytes);
        for bio in &request.bios {
            left = left.saturating_sub(u64::from(bio.bytes));
            let sum = Sum {
                count: 1,
                time: ns(request.end.since(bio.time)),
                bytes: moved(u64::from(bio.bytes)),
            };
            let who = self.who(bio);
            self.add(what, who, bio.stack, bio.file, sum);
        }
        if left > 0 || request.bios.is_empty() {
            let unseen = request.bios.is_empty();
            let sum = Sum {
                count: 1,
                time: if unseen {
                    ns(request.end.since(request.start))
                } else {
                    0
                },
                bytes: moved(left),
            };
            self.add(what, Who::Nobody, None, None, sum);
        }
    }
}
