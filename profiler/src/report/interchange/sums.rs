//! Sums by stack, thread and what was measured: each format that knows stacks is written from these.
//!
//! They add up to what the verbs tell: `ngmi faults`, `ngmi waits`, `ngmi io`, and the CPU time of `ngmi convert --json`.

mod measures;
mod room;
mod subject;

use std::mem::take;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

pub use measures::{Table, Weight};
use subject::Paths;
pub use subject::Subject;

use crate::addr::ns;
use crate::fact::fault::FaultClass;
use crate::fact::reasons::refined;
use crate::fact::request::{Operation, RequestSight};
use crate::fact::{
    BioFact, DeviceId, FactSink, FaultFact, MappedFileId, Mark, Noun, ProcessId, RequestFact, SampleFact, StackId,
    Tables, ThreadId, Visit, WaitFact, WaitReason,
};
use crate::report::io::select::bases;

/// Who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// A recorded thread.
    Thread(ThreadId),
    /// One that is not recorded, or several of the same name: index into the names.
    Named(u32),
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
    /// There was no room for the frames that this stack called.
    pub cut: bool,
    /// The file that it is about.
    pub file: Option<Subject>,
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

/// A name that sums are told by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name {
    /// Of the process, if it is known.
    pub process: Option<Arc<str>>,
    /// Of the thread.
    pub thread: String,
}

/// Takes the facts of the wanted tables and sums them up. Grows with what is distinct, as far as there is room ([`room`]).
#[derive(Debug)]
pub struct Sums {
    wanted: Vec<Table>,
    by_key: FxHashMap<Key, Sum>,
    names: Vec<Name>,
    known: FxHashMap<Name, u32>,
    paths: Paths,
    /// Sums at most, about.
    room: usize,
    /// Processes of which nothing comes any more.
    over: FxHashSet<ProcessId>,
    /// Threads of these are told by name, and files that are told by one path as one.
    gathers: bool,
    /// By path, and whether it was deleted: the first one.
    files: FxHashMap<(Arc<str>, bool), MappedFileId>,
    /// Some were.
    gathered: bool,
    /// Facts whose stacks were cut, or left out; known when finished.
    cut: u64,
}

impl Sums {
    /// Of these tables.
    pub fn new(wanted: &[Table]) -> Self {
        Self::within(wanted, room::SUMS)
    }

    /// Of these tables, about so many at most.
    pub fn within(wanted: &[Table], room: usize) -> Self {
        Self {
            wanted: wanted.to_vec(),
            by_key: FxHashMap::default(),
            names: Vec::new(),
            known: FxHashMap::default(),
            paths: Paths::default(),
            room,
            over: FxHashSet::default(),
            gathers: false,
            files: FxHashMap::default(),
            gathered: false,
            cut: 0,
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

    /// What is told by name.
    pub fn name(&self, number: u32) -> Option<&Name> {
        self.names.get(number as usize)
    }

    /// The sums, in an order that is the same each time, with what only the finished tables can say.
    pub fn finish(&mut self, tables: &Tables) -> Vec<(Key, Sum)> {
        if self.wanted.contains(&Table::Samples) {
            self.rest_of_cpu_time(tables);
        }
        let counted = self.devices(tables);
        let refine = |(mut key, sum): (Key, Sum)| {
            match &mut key.what {
                What::Io(device, _) if !counted.get(device.index()).copied().unwrap_or(true) => return None,
                What::Wait(reason) if !key.cut => *reason = refined(tables, key.stack, *reason),
                _ => {}
            }
            Some((key, sum))
        };
        let mut finished: Vec<(Key, Sum)> = take(&mut self.by_key).into_iter().filter_map(refine).collect();
        finished.sort_unstable_by_key(|(key, _)| *key);
        finished.dedup_by(|(key, more), (kept, sum)| {
            let same = key == kept;
            if same {
                sum.add(*more);
            }
            same
        });
        let cut = finished.iter().filter(|(key, _)| key.cut);
        self.cut = cut.fold(0, |all, (_, sum)| all.saturating_add(sum.count));
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
                self.add(tables, What::Sample, Who::Thread(id), (None, None), sum);
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

    fn add(
        &mut self,
        tables: &Tables,
        what: What,
        who: Who,
        (stack, file): (Option<StackId>, Option<Subject>),
        sum: Sum,
    ) {
        let key = Key {
            what,
            who: self.teller(tables, who),
            stack,
            cut: false,
            file: file.map(|file| self.told_as(tables, file)),
        };
        self.by_key.entry(key).or_default().add(sum);
        if self.by_key.len() > self.room {
            self.make_room(tables);
        }
    }

    fn named(&mut self, name: Name) -> Who {
        if let Some(known) = self.known.get(&name) {
            return Who::Named(*known);
        }
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.clone());
        self.known.insert(name, next);
        Who::Named(next)
    }

    fn who(&mut self, bio: &BioFact) -> Who {
        match bio.thread {
            Some(thread) => Who::Thread(thread),
            None if bio.name.is_empty() => Who::Nobody,
            None => {
                // Workers of the kernel do everybody's work in turn: their numbers say nothing.
                let thread = match bio.name.split_once('/') {
                    Some(("kworker", _)) => "kworker".to_owned(),
                    _ => bio.name.clone(),
                };
                self.named(Name { process: None, thread })
            }
        }
    }
}

impl FactSink for Sums {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        if self.wants(Table::Samples) {
            let sum = Sum {
                count: u64::from(sample.weight),
                time: ns(sample.cpu_time),
                bytes: 0,
            };
            let who = Who::Thread(sample.thread);
            self.add(tables, What::Sample, who, (sample.stack, None), sum);
        }
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        if self.wants(Table::Faults) {
            let sum = Sum {
                count: 1,
                time: ns(fault.time()),
                bytes: fault.bytes(),
            };
            let (who, file) = (
                Who::Thread(fault.thread),
                fault.place.map(|place| Subject::File(place.file)),
            );
            self.add(tables, What::Fault(fault.class), who, (fault.stack, file), sum);
        }
    }

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        if self.wants(Table::Waits) {
            let file = self.subject(wait);
            let who = Who::Thread(wait.thread);
            // It is one wait, whatever its time went to.
            let mut count = u64::from(wait.count);
            for (reason, time) in wait.parts() {
                let (count, time) = (take(&mut count), ns(time));
                let sum = Sum { count, time, bytes: 0 };
                self.add(tables, What::Wait(reason), who, (wait.stack, file), sum);
            }
        }
    }

    /// As `ngmi io` counts: each part of a request, and what is left of it, if anything.
    fn request(&mut self, tables: &Tables, request: &RequestFact) {
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
            self.add(tables, what, who, (bio.stack, bio.file.map(Subject::File)), sum);
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
            self.add(tables, what, Who::Nobody, (None, None), sum);
        }
    }

    fn over(&mut self, _: &Tables, process: ProcessId) {
        self.over.insert(process);
    }

    fn wants_stacks(&self, noun: Noun) -> bool {
        let wants = |table| self.wants(table);
        match noun {
            Noun::Sample => wants(Table::Samples),
            Noun::Fault => wants(Table::Faults),
            Noun::Wait => wants(Table::Waits) || wants(Table::Requests),
        }
    }

    fn shows_stacks(&self) -> bool {
        true
    }

    fn visit(&mut self, visit: &mut dyn Visit) {
        self.visit_stacks(visit);
    }

    fn keeps_less(&mut self, tables: &Tables) -> bool {
        self.keeps_fewer(tables)
    }
}
