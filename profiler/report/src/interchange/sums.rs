//! Sums by stack, thread and kind of event, from which every format with stacks is written.
//!
//! They add up to the totals of `ngmi faults`, `ngmi waits` and `ngmi io`, and to the CPU time of `ngmi convert --json`.

mod measures;
mod path;
mod room;
mod subject;
mod what;

use std::mem::take;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

pub use measures::{Table, Weight};
pub use subject::Subject;
pub use what::What;

use crate::io::select::bases;
use crate::path::PathFacts;
use base::addr::ns;
use base::intern::Interner;
use fact::reasons::refined;
use fact::request::RequestCoverage;
use fact::{
    BioFact, Cause, EventKind, FactSink, FaultFact, MappedFileId, Mark, ProcessId, RequestFact, SampleFact, StackId,
    Tables, ThreadId, Visit, WaitFact,
};

/// The thread that a sum is attributed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// A recorded thread.
    Thread(ThreadId),
    /// An unrecorded thread, or several threads with the same name; index into the names.
    Named(u32),
    /// Unknown.
    Unknown,
}

/// The key of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The kind of event.
    pub what: What,
    /// The thread.
    pub who: Who,
    /// The stack, if known.
    pub stack: Option<StackId>,
    /// The inner frames of this stack were cut to save memory.
    pub cut: bool,
    /// The file that the events are about.
    pub file: Option<Subject>,
}

/// The sum of events with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// The number of events.
    pub count: u64,
    /// Sum of their times, in ns.
    pub time: u64,
    /// Sum of their bytes.
    pub bytes: u64,
}

impl Sum {
    fn add(&mut self, more: Self) {
        self.count = self.count.saturating_add(more.count);
        self.time = self.time.saturating_add(more.time);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }

    /// The value of one measure.
    pub fn of(self, weight: Weight) -> u64 {
        match weight {
            Weight::Time => self.time,
            Weight::Count => self.count,
            Weight::Bytes => self.bytes,
        }
    }
}

/// The name under which merged or unrecorded threads are summed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name {
    /// Name of the process, if known.
    pub process: Option<Arc<str>>,
    /// Name of the thread.
    pub thread: String,
    /// Cgroup of the process, if known.
    pub cgroup: Option<Arc<str>>,
}

/// Sums the facts of the requested tables. Memory grows with the number of distinct keys, up to a limit ([`room`]).
#[derive(Debug)]
pub struct Sums {
    wanted: Vec<Table>,
    by_key: FxHashMap<Key, Sum>,
    names: Interner<Name>,
    paths: Interner<Arc<str>>,
    /// What the critical path is followed through, if it is wanted.
    path: Option<PathFacts>,
    /// The approximate limit for the number of sums.
    room: usize,
    /// Processes that ended: no more facts of them follow.
    ended: FxHashSet<ProcessId>,
    /// Merge threads of ended processes by name, and files by path.
    gathers: bool,
    /// The first file of each path and deleted state.
    files: FxHashMap<(Arc<str>, bool), MappedFileId>,
    /// Some threads were merged by name.
    gathered: bool,
    /// Facts with stacks that were cut or left out; known when finished.
    cut: u64,
}

impl Sums {
    /// Empty sums of these tables, with the default limit.
    pub fn new(wanted: &[Table]) -> Self {
        Self::within(wanted, room::SUMS)
    }

    /// Empty sums of these tables, with `room` as the approximate limit for their number.
    pub fn within(wanted: &[Table], room: usize) -> Self {
        Self {
            wanted: wanted.to_vec(),
            by_key: FxHashMap::default(),
            names: Interner::default(),
            paths: Interner::default(),
            path: wanted.contains(&Table::Path).then(PathFacts::default),
            room,
            ended: FxHashSet::default(),
            gathers: false,
            files: FxHashMap::default(),
            gathered: false,
            cut: 0,
        }
    }

    /// The tables that are summed.
    pub fn tables(&self) -> &[Table] {
        &self.wanted
    }

    /// The number of facts in a table.
    pub fn count(&self, table: Table) -> u64 {
        let of_table = self.by_key.iter().filter(|(key, _)| key.what.table() == table);
        of_table.fold(0, |sum, (_, more)| sum.saturating_add(more.count))
    }

    /// Looks up a name for [`Who::Named`].
    pub fn name(&self, number: u32) -> Option<&Name> {
        self.names.get(number as usize)
    }

    /// The sums in a reproducible order, completed with facts that only the finished tables contain.
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

    /// Adds the CPU time of threads after their last sample, which has no stack.
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

    /// Whether each device's requests count. A device on top of others passes its requests on to them, where they would count again.
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
            who: self.attributed_thread(tables, who),
            stack,
            cut: false,
            file: file.map(|file| self.attributed_file(tables, file)),
        };
        self.by_key.entry(key).or_default().add(sum);
        if self.by_key.len() > self.room {
            self.make_room(tables);
        }
    }

    fn named(&mut self, name: &Name) -> Who {
        Who::Named(self.names.number(name, usize::MAX, Clone::clone).unwrap_or(u32::MAX))
    }

    fn who(&mut self, bio: &BioFact) -> Who {
        match bio.thread {
            Some(thread) => Who::Thread(thread),
            None if bio.name.is_empty() => Who::Unknown,
            None => {
                // The kernel's workers serve all threads in turn: their numbers mean nothing.
                let thread = match bio.name.split_once('/') {
                    Some(("kworker", _)) => "kworker".to_owned(),
                    _ => bio.name.clone(),
                };
                self.named(&Name {
                    process: None,
                    thread,
                    cgroup: None,
                })
            }
        }
    }
}

impl FactSink for Sums {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        if let Some(path) = &mut self.path {
            path.sample(tables, sample);
        }
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
        if let Some(path) = &mut self.path {
            path.fault(tables, fault);
        }
        if self.wants(Table::Faults) {
            let sum = Sum {
                count: fault.count(),
                time: ns(fault.total_time()),
                bytes: fault.total_bytes(tables.recording.page()),
            };
            let (who, file) = (
                Who::Thread(fault.thread),
                fault.place.map(|place| Subject::File(place.file)),
            );
            self.add(tables, What::Fault(fault.class), who, (fault.stack, file), sum);
        }
    }

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        if let Some(path) = &mut self.path {
            path.wait(tables, wait);
        }
        if self.wants(Table::Waits) {
            let file = self.subject(wait);
            let who = Who::Thread(wait.thread);
            // It counts as one wait, however many reasons share its time.
            let mut count = u64::from(wait.count);
            for (reason, time) in wait.parts() {
                let (count, time) = (take(&mut count), ns(time));
                let sum = Sum { count, time, bytes: 0 };
                self.add(tables, What::Wait(reason), who, (wait.stack, file), sum);
            }
        }
    }

    /// Counts like `ngmi io`: each part of a request, and the rest of it, if any.
    fn request(&mut self, tables: &Tables, request: &RequestFact) {
        if !self.wants(Table::Requests) || request.coverage == RequestCoverage::EndMissed {
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
            self.add(tables, what, Who::Unknown, (None, None), sum);
        }
    }

    fn joined(&mut self, tables: &Tables, cause: &Cause) {
        if let Some(path) = &mut self.path {
            path.joined(tables, cause);
        }
    }

    fn process_ended(&mut self, _: &Tables, process: ProcessId) {
        self.ended.insert(process);
    }

    fn wants_stacks(&self, kind: EventKind) -> bool {
        let wants = |table| self.wants(table);
        match kind {
            EventKind::Sample => wants(Table::Samples) || wants(Table::Path),
            EventKind::Fault => wants(Table::Faults),
            EventKind::Wait => wants(Table::Waits) || wants(Table::Requests) || wants(Table::Path),
        }
    }

    fn shows_stacks(&self) -> bool {
        true
    }

    fn visit(&mut self, visit: &mut dyn Visit) {
        self.visit_stacks(visit);
        if let Some(path) = &mut self.path {
            path.visit(visit);
        }
    }

    fn shrink_if_too_many(&mut self, tables: &Tables) -> bool {
        self.keeps_fewer(tables)
    }
}
