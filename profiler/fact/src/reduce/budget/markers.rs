//! Markers within a budget: beyond it the shortest minor page faults are folded into sums, then reads into the page
//! cache, then other faults; the shortest marks are dropped last. A browser's own markers get at most a quarter.

use std::cmp::Reverse;
use std::mem::take;
use std::sync::Arc;

use super::{ThreadFacts, causes, duration};
use crate::prune::{Visit, visit_stack};
use crate::reduce::packed::{Outliers, PackedFault, PackedFaults};
use crate::reduce::sums::{KeyedSums, SumTable, summed};
use crate::{
    Effect, FaultFact, FoldedFaults, FoldedReads, MappedFileId, Mark, MarkKind, PagesBy, PagesReadFact, Recording,
    StackId, ThreadId, fault::FaultClass,
};
use base::addr::{Timestamp, ns};
use base::plural::count;

/// Maximum number of distinct stacks of folded faults, unless a quarter of the marker budget is more.
const FOLDED_STACKS: usize = 1 << 16;

/// Folded faults of one thread with the same stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldedStack {
    /// The thread.
    pub thread: ThreadId,
    /// Stack of the faults.
    pub stack: Option<StackId>,
    /// When the last of them ended.
    pub time: Timestamp,
    /// Number of faults.
    pub faults: u64,
    /// Sum of [`FaultFact::time`], in ns.
    pub latency: u64,
    /// Sum of [`FaultFact::bytes`].
    pub bytes: u64,
}

impl FoldedStack {
    /// Sorts by time.
    pub fn sort(stacks: &mut [Self]) {
        stacks.sort_unstable_by_key(|folded| (folded.time, folded.thread, folded.stack));
    }
}

/// Markers while facts arrive.
#[derive(Debug, Default)]
pub struct Markers {
    budget: usize,
    /// The machine's page size.
    page: u64,
    /// Starts, execs and exits of processes.
    lives: Vec<Mark>,
    marks: Vec<Mark>,
    /// Of Firefox's own profiler: more in a minute than faults, which they must not displace.
    gecko: Vec<Mark>,
    faults: Vec<PackedFault>,
    long: Outliers,
    reads: Vec<PagesReadFact>,
    dropped: u64,
    folded: KeyedSums<FoldedFaults>,
    folded_reads: KeyedSums<FoldedReads>,
    folded_stacks: SumTable<FoldedStack>,
}

impl Markers {
    /// An empty collection that keeps at most `budget` markers in the end.
    pub fn new(budget: usize) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    pub fn mark(&mut self, mark: &Mark) {
        match mark.kind {
            MarkKind::ProcessStart | MarkKind::Exec { .. } | MarkKind::ProcessExit { .. } => {
                self.lives.push(mark.clone());
            }
            MarkKind::Program { .. } => {
                self.marks.push(mark.clone());
                self.make_room();
            }
            MarkKind::Gecko(_) => {
                self.gecko.push(mark.clone());
                self.make_room();
            }
        }
    }

    /// `page`: the machine's page size.
    pub fn fault(&mut self, fault: &FaultFact, page: u64) {
        self.page = page;
        self.faults.push(PackedFault::new(fault, &mut self.long));
        self.make_room();
    }

    pub fn read(&mut self, read: &PagesReadFact) {
        self.reads.push(*read);
        self.make_room();
    }

    /// Keys of the faults kept so far.
    pub fn effects(&self) -> impl Iterator<Item = Effect> {
        self.faults
            .iter()
            .map(|fault| causes::of_fault(&fault.fact(&self.long)))
    }

    /// Visits the stacks that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        let marks = self.lives.iter_mut().chain(&mut self.marks).chain(&mut self.gecko);
        marks.for_each(|mark| visit_stack(&mut mark.stack, visit));
        self.faults.iter_mut().for_each(|fault| fault.visit(visit));
        self.folded_stacks
            .visit(visit, |sum, visit| visit_stack(&mut sum.stack, visit));
    }

    /// Lowers the budget.
    pub fn shrink(&mut self, budget: usize) {
        self.budget = self.budget.min(budget);
        self.fit();
    }

    /// Keeps as many stacks of folded faults as allowed: those with the least time lose their place in the call tree.
    pub fn shrink_stacks(&mut self) {
        let most = stacks_room(self.budget);
        if self.folded_stacks.count() <= most {
            return;
        }
        let mut all = take(&mut self.folded_stacks).into_rows();
        all.select_nth_unstable_by_key(most, |sum| (Reverse(sum.latency), sum.thread, sum.stack));
        for (mut sum, place) in all.into_iter().zip(0..) {
            sum.stack = sum.stack.filter(|_| place < most);
            self.folded_stacks.add(sum);
        }
    }

    /// Adds facts that an earlier budget has already folded.
    pub fn take_over(&mut self, recording: &mut Recording) {
        for folded in take(&mut recording.folded_faults) {
            self.folded.add(folded);
        }
        for folded in take(&mut recording.folded_reads) {
            self.folded_reads.add(folded);
        }
    }

    fn len(&self) -> usize {
        self.marks.len() + self.gecko.len() + self.faults.len() + self.reads.len()
    }

    /// A margin of a quarter lets each round remove many markers.
    fn make_room(&mut self) {
        if self.len() > self.budget.saturating_add(self.budget / 4) {
            self.fit();
        }
    }

    fn fit(&mut self) {
        let mut excess = self.len().saturating_sub(self.budget);
        if excess == 0 {
            return;
        }
        let of_gecko = self.gecko.len().saturating_sub(self.budget / 4);
        excess -= self.drop_shortest(excess.min(of_gecko), |all| &mut all.gecko);
        let minor = self
            .faults
            .iter()
            .filter(|fault| !is_significant(&fault.fact(&self.long)));
        let minor = minor.count();
        excess -= self.fold_faults(excess.min(minor));
        excess -= self.fold_reads(excess.min(self.reads.len()));
        excess -= self.fold_faults(excess.min(self.faults.len()));
        excess -= self.drop_shortest(excess.min(self.gecko.len()), |all| &mut all.gecko);
        self.drop_shortest(excess.min(self.marks.len()), |all| &mut all.marks);
        // One kind may use what another leaves.
        let more = self.budget / 4;
        self.faults.shrink_to(self.faults.len().saturating_add(more));
        self.reads.shrink_to(self.reads.len().saturating_add(more));
    }

    /// Folds the shortest minor faults first, the latest of equal ones.
    fn fold_faults(&mut self, count: usize) -> usize {
        let kept = self.faults.len() - count;
        if count > 0 {
            self.faults.select_nth_unstable_by_key(kept, |fault| {
                let fault = fault.fact(&self.long);
                let which = (fault.start, fault.thread, fault.address, fault.stack);
                (!is_significant(&fault), Reverse(fault.time()), which)
            });
        }
        let stacks = stacks_room(self.budget);
        for fault in self.faults.drain(kept..) {
            let fault = fault.fact(&self.long);
            let (time, read) = (ns(fault.total_time()), u64::from(fault.pages_read));
            self.folded.add(FoldedFaults {
                thread: fault.thread,
                class: fault.class,
                major: fault.major,
                faults: fault.count(),
                time,
                pages_read: read,
            });
            // Beyond that many distinct stacks the sums stay exact and lose their place in the call tree.
            let has_room = self.folded_stacks.count() < stacks;
            let known = has_room || self.folded_stacks.has(&(fault.thread, fault.stack));
            let sum = FoldedStack {
                thread: fault.thread,
                stack: fault.stack.filter(|_| known),
                time: fault.end(),
                faults: fault.count(),
                latency: time,
                bytes: fault.total_bytes(self.page),
            };
            self.folded_stacks.add(sum);
        }
        count
    }

    /// Folds the smallest reads first, the latest of equal ones.
    fn fold_reads(&mut self, count: usize) -> usize {
        let kept = self.reads.len() - count;
        if count > 0 {
            self.reads
                .select_nth_unstable_by_key(kept, |read| (Reverse(read.pages.count), read.time, read.thread));
        }
        for read in self.reads.drain(kept..) {
            self.folded_reads.add(FoldedReads {
                file: read.file,
                by: read.by,
                runs: 1,
                pages: u64::from(read.pages.count),
            });
        }
        count
    }

    /// Drops the shortest marks first, the latest of equal ones.
    fn drop_shortest(&mut self, count: usize, list: fn(&mut Self) -> &mut Vec<Mark>) -> usize {
        let marks = list(self);
        let kept = marks.len() - count;
        if count > 0 {
            marks.select_nth_unstable_by_key(kept, |mark| (Reverse(duration(mark)), mark.start));
        }
        marks.truncate(kept);
        self.dropped += count as u64;
        count
    }

    /// Distributes the markers to their threads, and notes in the recording which are missing. Returns the number of
    /// dropped marks, and the stacks of folded faults.
    pub fn finish(mut self, threads: &mut [ThreadFacts], recording: &mut Recording) -> (u64, Vec<FoldedStack>) {
        self.fit();
        for mark in self.lives.into_iter().chain(self.marks).chain(self.gecko) {
            if let Some(thread) = threads.get_mut(mark.thread.index()) {
                thread.marks.push(mark);
            }
        }
        hand_out(self.faults, self.long, threads);
        for read in self.reads {
            if let Some(thread) = threads.get_mut(read.thread.index()) {
                thread.reads.push(read);
            }
        }
        for thread in threads {
            thread.marks.sort_by_key(|mark| mark.start);
            thread.reads.sort_by_key(|read| read.time);
        }
        recording.folded_faults = self.folded.into_sorted();
        recording.folded_reads = self.folded_reads.into_sorted();
        for note in notes(self.dropped, recording) {
            if !recording.notes.contains(&note) {
                recording.notes.push(note);
            }
        }
        let mut stacks = self.folded_stacks.into_rows();
        FoldedStack::sort(&mut stacks);
        (self.dropped, stacks)
    }
}

/// Distributes faults to their threads, sorted by start. They are most of the markers, so they are never copied.
fn hand_out(mut faults: Vec<PackedFault>, long: Outliers, threads: &mut [ThreadFacts]) {
    faults.sort_unstable_by(|a, b| a.order(b, &long));
    let long = Arc::new(long);
    while let Some(last) = faults.last().map(PackedFault::thread) {
        let own = faults.split_off(faults.partition_point(|fault| fault.thread() < last));
        faults.shrink_to_fit();
        if let Some(thread) = threads.get_mut(last.index()) {
            thread.faults = PackedFaults::new(own, Arc::clone(&long));
        }
    }
}

/// Notes for the user about missing markers.
fn notes(dropped: u64, recording: &Recording) -> Vec<String> {
    let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
    let faults = sum(&mut recording.folded_faults.iter().map(|folded| folded.faults));
    let reads = sum(&mut recording.folded_reads.iter().map(|folded| folded.runs));
    let mut notes = Vec::new();
    if dropped > 0 {
        notes.push(format!(
            "markers dropped (the shortest and latest first): {}; keep all with --keep-events.",
            count(dropped)
        ));
    }
    if faults > 0 {
        notes.push(format!(
            "page faults without a marker (the shortest minor ones): {}; totals and call trees include them; keep all \
             with --keep-events.",
            count(faults)
        ));
    }
    if reads > 0 {
        notes.push(format!(
            "reads without a marker (the smallest ones): {}; sums by file include them; keep all with --keep-events.",
            count(reads)
        ));
    }
    let waits = sum(&mut recording.folded_waits.iter().map(|folded| folded.waits));
    if waits > 0 {
        notes.push(format!(
            "waits not listed individually (the shortest ones): {}; totals and call trees include them; keep all \
             with --keep-events.",
            count(waits)
        ));
    }
    let requests = sum(&mut recording.folded_requests.iter().map(|folded| folded.requests));
    if requests > 0 {
        notes.push(format!(
            "block requests without a marker (the smallest ones): {}; sums by device and counters include them; \
             keep all with --keep-events.",
            count(requests)
        ));
    }
    notes
}

/// Whether the fault did more than map a page that was in memory already.
fn is_significant(fault: &FaultFact) -> bool {
    fault.major || fault.failed.is_some() || fault.waited()
}

/// Maximum number of distinct stacks of folded faults.
fn stacks_room(budget: usize) -> usize {
    (budget / 4).max(FOLDED_STACKS)
}

summed!(FoldedStack, by thread: ThreadId, stack: Option<StackId>; add faults, latency, bytes; max time);
summed!(FoldedFaults, by thread: ThreadId, class: FaultClass, major: bool; add faults, time, pages_read);
summed!(FoldedReads, by file: MappedFileId, by: PagesBy; add runs, pages);
