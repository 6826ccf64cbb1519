//! Keeps facts within a budget: thins samples by powers of two with exact totals, folds the least significant markers.
//!
//! Beyond the budget of samples, every second kept sample of each thread is dropped, repeatedly: each kept sample then
//! represents 2ᵏ consecutive samples of its thread and carries their CPU time and weight, which keeps every total
//! exact. A group that is unfinished when the thread ends becomes a kept sample: a thread that ran is never empty.
//! Waits take up to three rows among the samples and a marker each; waits and requests each get a share of the budget.

mod causes;
mod limits;
mod load;
mod markers;
mod requests;
mod totals;
mod visit;
mod waits;

use std::time::Duration;

use self::limits::{STACKS, WAIT_ROWS};
use self::markers::Markers;
use self::requests::Requests;
use self::waits::Waits;
use crate::prune::{Visit, prune};
use crate::reduce::finding_inputs::{FindingInputs, Gather};
use crate::reduce::packed::PackedFaults;
use crate::reduce::pages::Pages;
use crate::{
    Cause, FactSink, FaultFact, Mark, PagesReadFact, RequestFact, SampleFact, StackId, Tables, ThreadId, WaitFact,
};
use base::addr::{Timestamp, ns};

pub use self::limits::Budget;
pub use self::load::{Load, LoadStep};
pub use self::markers::FoldedStack;
pub use self::requests::{DeviceTotals, RequestTotals};
pub use self::totals::{FaultRate, FaultTotals};
pub use self::waits::{FoldedWaitStack, WaitSum, WaitTotals};

/// A kept sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptSample {
    /// When it was taken.
    pub time: Timestamp,
    /// On-CPU time since the thread's previous kept sample, in ns.
    pub cpu_time: u64,
    /// Call stack.
    pub stack: Option<StackId>,
    /// How many samples it represents.
    pub weight: u64,
    /// Whether the CPU was in the kernel.
    pub in_kernel: bool,
}

impl KeptSample {
    /// Adds the totals of an earlier sample that is dropped.
    fn absorb(&mut self, earlier: &Self) {
        self.cpu_time = self.cpu_time.saturating_add(earlier.cpu_time);
        self.weight = self.weight.saturating_add(earlier.weight);
    }
}

impl From<&SampleFact> for KeptSample {
    fn from(sample: &SampleFact) -> Self {
        Self {
            time: sample.time,
            cpu_time: ns(sample.cpu_time),
            stack: sample.stack,
            weight: u64::from(sample.weight),
            in_kernel: sample.in_kernel,
        }
    }
}

/// The kept facts of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadFacts {
    /// Samples, times ascending.
    pub samples: Vec<KeptSample>,
    /// Marks, starts ascending.
    pub marks: Vec<Mark>,
    /// Page faults, starts ascending.
    pub faults: PackedFaults,
    /// Page-cache reads, times ascending.
    pub reads: Vec<PagesReadFact>,
    /// Waits, ends ascending.
    pub waits: Vec<WaitFact>,
}

/// Facts within the budget.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// Indexed by [`ThreadId`]; one for each thread of the tables.
    pub threads: Vec<ThreadFacts>,
    /// How many source samples each kept one represents.
    pub thinning: u64,
    /// Number of marks dropped.
    pub marks_dropped: u64,
    /// Sums of all page faults, folded or not.
    pub faults: FaultTotals,
    /// Stacks of folded faults.
    pub folded_stacks: Vec<FoldedStack>,
    /// Sums of all waits, folded or not.
    pub waits: WaitTotals,
    /// Stacks of folded waits.
    pub folded_wait_stacks: Vec<FoldedWaitStack>,
    /// Block requests, ends ascending.
    pub requests: Vec<RequestFact>,
    /// Sums of all requests, folded or not.
    pub request_totals: RequestTotals,
    /// Why faults and waits took so long, sorted by the fault or wait.
    pub causes: Vec<Cause>,
    /// Input for findings, from all faults, folded or not.
    pub inputs: FindingInputs,
}

impl Collected {
    /// Emits the kept facts: samples and markers of each thread, times ascending.
    pub fn replay(&self, tables: &Tables, sink: &mut dyn FactSink) {
        for (facts, thread) in self.threads.iter().zip((0..).map(ThreadId)) {
            for kept in &facts.samples {
                sink.sample(
                    tables,
                    &SampleFact {
                        time: kept.time,
                        thread,
                        stack: kept.stack,
                        cpu_time: Duration::from_nanos(kept.cpu_time),
                        in_kernel: kept.in_kernel,
                        weight: u32::try_from(kept.weight).unwrap_or(u32::MAX),
                    },
                );
            }
            facts.marks.iter().for_each(|mark| sink.mark(tables, mark));
            facts.faults.iter().for_each(|fault| sink.fault(tables, &fault));
            facts.reads.iter().for_each(|read| sink.pages_read(tables, read));
            facts.waits.iter().for_each(|wait| sink.wait(tables, wait));
        }
        self.requests.iter().for_each(|request| sink.request(tables, request));
        self.causes.iter().for_each(|cause| sink.joined(tables, cause));
    }
}

/// A thread while facts arrive.
#[derive(Debug, Default)]
struct Lane {
    kept: Vec<KeptSample>,
    /// The latest sample of the unfinished group, with the group's totals.
    carry: Option<KeptSample>,
    /// Samples in the unfinished group.
    pending: u64,
}

impl Lane {
    /// Merges pairs; an unpaired last sample starts the unfinished group.
    fn halve(&mut self, group: u64) {
        let mut kept = 0;
        for pair in 0..self.kept.len() / 2 {
            let mut later = self.kept[2 * pair + 1];
            later.absorb(&self.kept[2 * pair]);
            self.kept[pair] = later;
            kept += 1;
        }
        if self.kept.len() % 2 == 1 {
            let odd = self.kept[self.kept.len() - 1];
            match &mut self.carry {
                Some(carry) => carry.absorb(&odd),
                None => self.carry = Some(odd),
            }
            self.pending += group;
        }
        self.kept.truncate(kept);
        // Most threads have ended and get no more samples.
        self.kept.shrink_to_fit();
    }
}

/// Collects facts within a [`Budget`].
#[derive(Debug)]
pub struct Collector {
    budget: Budget,
    lanes: Vec<Lane>,
    /// Samples in `lanes`, without unfinished groups.
    kept: usize,
    /// Samples per kept sample: a power of two.
    group: u64,
    markers: Markers,
    faults: FaultTotals,
    waits: Waits,
    requests: Requests,
    causes: Vec<Cause>,
    /// Number of causes at which those of folded faults and waits are removed.
    causes_room: usize,
    inputs: Gather,
    pages: Pages,
}

impl Collector {
    /// An empty collector.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget: Budget {
                samples: budget.samples.max(1),
                ..budget
            },
            lanes: Vec::new(),
            kept: 0,
            group: 1,
            markers: Markers::new(budget.marks),
            faults: FaultTotals::default(),
            waits: Waits::new(budget.waits()),
            requests: Requests::new(budget.requests()),
            causes: Vec::new(),
            causes_room: budget.marks,
            inputs: Gather::default(),
            pages: Pages::default(),
        }
    }

    fn halve(&mut self) {
        for lane in &mut self.lanes {
            lane.halve(self.group);
        }
        self.kept = self.lanes.iter().map(|lane| lane.kept.len()).sum();
        self.group = self.group.saturating_mul(2);
    }

    /// Ends collecting: notes in `tables` what was thinned or dropped and, if anything was, removes the stacks and
    /// frames that no fact refers to any more.
    pub fn finish(mut self, tables: &mut Tables) -> Collected {
        let (waits, requests) = (self.waits.fit(), self.requests.fit());
        while self.kept > 0 && self.kept + WAIT_ROWS * waits > self.budget.samples {
            self.halve();
        }
        let marks = self.budget.marks.saturating_sub(waits).saturating_sub(requests);
        self.markers.shrink(marks);
        let mut threads: Vec<ThreadFacts> = Vec::with_capacity(tables.threads.len());
        for lane in self.lanes {
            let mut samples = lane.kept;
            // A growing vector would otherwise double its capacity for one more sample.
            samples.reserve_exact(1);
            samples.extend(lane.carry);
            if !samples.is_sorted_by_key(|sample| sample.time) {
                samples.sort_by_key(|sample| sample.time);
            }
            threads.push(ThreadFacts {
                samples,
                ..ThreadFacts::default()
            });
        }
        threads.resize_with(tables.threads.len(), ThreadFacts::default);
        let recording = &mut tables.recording;
        let thinning = u64::from(recording.sample_thinning.max(1)).saturating_mul(self.group);
        recording.sample_thinning = u32::try_from(thinning).unwrap_or(u32::MAX);
        recording.faults_seen = recording.faults_seen.max(self.faults.faults);
        self.markers.take_over(recording);
        let (waits, folded_wait_stacks) = self.waits.finish(&mut threads, recording);
        let (request_totals, requests) = self.requests.finish(recording);
        let (marks_dropped, folded_stacks) = self.markers.finish(&mut threads, recording);
        let folded = !recording.folded_faults.is_empty()
            || !recording.folded_reads.is_empty()
            || !recording.folded_waits.is_empty()
            || !recording.folded_requests.is_empty();
        let mut collected = Collected {
            causes: causes::of_kept(self.causes, &threads),
            threads,
            thinning: self.group,
            marks_dropped,
            faults: self.faults,
            folded_stacks,
            waits,
            folded_wait_stacks,
            requests,
            request_totals,
            inputs: self.inputs.finish(tables, &self.pages),
        };
        if self.group > 1 || marks_dropped > 0 || folded {
            prune(tables, |visit| collected.visit(visit));
        }
        collected
    }

    /// Lowers the limits if there are too many stacks; returns whether it did.
    fn shrink(&mut self, stacks: usize) -> bool {
        let less = self.budget.less();
        if stacks <= STACKS || less == self.budget {
            return false;
        }
        self.budget = less;
        while self.kept > less.samples {
            self.halve();
        }
        self.markers.shrink(less.marks);
        self.markers.shrink_stacks();
        self.waits.shrink(less.waits());
        self.waits.shrink_stacks();
        self.requests.shrink(less.requests());
        true
    }
}

impl FactSink for Collector {
    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        let index = sample.thread.index();
        debug_assert!(index < tables.threads.len(), "fact of an unknown thread");
        if index >= self.lanes.len() {
            self.lanes
                .resize_with(tables.threads.len().max(self.lanes.len()), Lane::default);
        }
        let Some(lane) = self.lanes.get_mut(index) else { return };
        let mut sample = KeptSample::from(sample);
        if let Some(carry) = lane.carry.take() {
            sample.absorb(&carry);
        }
        lane.pending += 1;
        if lane.pending < self.group {
            lane.carry = Some(sample);
            return;
        }
        lane.pending = 0;
        lane.kept.push(sample);
        self.kept += 1;
        while self.kept > self.budget.samples {
            self.halve();
        }
    }

    fn mark(&mut self, tables: &Tables, mark: &Mark) {
        self.inputs.mark(tables, mark);
        self.markers.mark(mark);
    }

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        self.faults.add(tables, fault);
        self.pages.fault(tables, fault);
        self.inputs.fault(tables, fault);
        self.markers.fault(fault, tables.recording.page());
    }

    fn pages_read(&mut self, tables: &Tables, read: &PagesReadFact) {
        self.pages.read(tables, read);
        self.markers.read(read);
    }

    fn wait(&mut self, _tables: &Tables, wait: &WaitFact) {
        self.waits.add(wait);
    }

    fn request(&mut self, _tables: &Tables, request: &RequestFact) {
        self.requests.add(request);
    }

    fn shows_stacks(&self) -> bool {
        true
    }

    fn shrink_if_too_many(&mut self, tables: &Tables) -> bool {
        self.shrink(tables.stacks.len())
    }

    fn visit(&mut self, visit: &mut dyn Visit) {
        for lane in &mut self.lanes {
            let samples = lane.kept.iter_mut().chain(&mut lane.carry);
            samples.for_each(|sample| sample.visit(visit));
        }
        self.markers.visit(visit);
        self.waits.visit(visit);
        self.requests.visit(visit);
        self.inputs.visit(visit);
        self.pages.visit(visit);
    }

    fn joined(&mut self, _tables: &Tables, cause: &Cause) {
        self.causes.push(*cause);
        // Causes arrive after what they explain: those of facts folded since then are not needed.
        if self.causes.len() > self.causes_room {
            let kept = self.markers.effects().chain(self.waits.effects());
            causes::retain(&mut self.causes, kept);
            self.causes_room = self.causes.len().saturating_mul(2).max(self.budget.marks);
        }
    }
}

/// A mark's length in ns.
fn duration(mark: &Mark) -> u64 {
    mark.end.map_or(0, |end| end.0.saturating_sub(mark.start.0))
}

#[cfg(test)]
mod io_tests;
#[cfg(test)]
mod less_tests;
#[cfg(test)]
mod tests;
