//! Waits within a budget: beyond it the shortest are folded into exact sums by thread and reason.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem::take;

use super::{ThreadFacts, causes};
use crate::prune::{Visit, visit_stack};
use crate::reduce::sums::{KeyedSums, Sum as _, SumTable, summed};
use crate::{Effect, FoldedWaits, Recording, StackId, ThreadId, WaitFact, WaitReason};
use base::addr::{Timestamp, ns};

/// Folded waits of one thread with the same stack and reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldedWaitStack {
    /// The thread.
    pub thread: ThreadId,
    /// Stack of the waits.
    pub stack: Option<StackId>,
    /// Why it waited.
    pub reason: WaitReason,
    /// Whether the waits were within page faults.
    pub in_fault: bool,
    /// When the last of them ended.
    pub time: Timestamp,
    /// Sum of [`WaitFact::blocked`], in ns.
    pub blocked: u64,
    /// Sum of [`WaitFact::queued`], in ns.
    pub queued: u64,
}

impl FoldedWaitStack {
    /// Sorts by time.
    pub fn sort(stacks: &mut [Self]) {
        stacks
            .sort_unstable_by_key(|folded| (folded.time, folded.thread, folded.stack, folded.reason, folded.in_fault));
    }
}

/// A sum of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitSum {
    /// Number of waits.
    pub waits: u64,
    /// Time off CPUs, in ns.
    pub off: u64,
    /// The part in which the thread was runnable, in ns.
    pub queued: u64,
}

impl WaitSum {
    /// Adds another sum.
    pub fn join(&mut self, more: &Self) {
        self.waits = self.waits.saturating_add(more.waits);
        self.off = self.off.saturating_add(more.off);
        self.queued = self.queued.saturating_add(more.queued);
    }
}

/// Exact sums of all waits, folded or not.
pub type WaitTotals = BTreeMap<(ThreadId, WaitReason), WaitSum>;

/// Waits while they arrive.
#[derive(Debug, Default)]
pub struct Waits {
    budget: usize,
    kept: Vec<WaitFact>,
    folded: KeyedSums<FoldedWaits>,
    stacks: SumTable<FoldedWaitStack>,
}

impl Waits {
    /// An empty collection that keeps at most `budget` waits in the end.
    pub fn new(budget: usize) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// Adds a wait.
    pub fn add(&mut self, wait: &WaitFact) {
        self.kept.push(wait.clone());
        // A margin of a quarter lets each round fold many waits.
        if self.kept.len() > self.budget.saturating_add(self.budget / 4) {
            self.fit();
        }
    }

    /// Keys of the waits kept so far.
    pub fn effects(&self) -> impl Iterator<Item = Effect> {
        self.kept.iter().map(causes::of_wait)
    }

    /// Visits the stacks that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        self.kept.iter_mut().for_each(|wait| wait.visit(visit));
        self.stacks
            .visit(visit, |sum, visit| visit_stack(&mut sum.stack, visit));
    }

    /// Lowers the budget.
    pub fn shrink(&mut self, budget: usize) {
        self.budget = budget;
        self.fit();
        self.kept.shrink_to(budget.saturating_add(budget / 4));
    }

    /// Folds down to the budget: the shortest first, the latest of equal ones. Returns how many remain.
    pub fn fit(&mut self) -> usize {
        let kept = self.budget.min(self.kept.len());
        if kept == self.kept.len() {
            return kept;
        }
        self.kept
            .select_nth_unstable_by_key(kept, |wait| (Reverse(wait.off), wait.start, wait.thread));
        for wait in self.kept.split_off(kept) {
            self.fold(&wait);
        }
        kept
    }

    fn fold(&mut self, wait: &WaitFact) {
        let WaitFact { thread, reason, .. } = *wait;
        self.folded.add(FoldedWaits::from(wait));
        // Beyond as many distinct stacks as waits the sums stay exact and lose their place in the call tree.
        let key = |stack| (thread, stack, reason, wait.in_fault);
        let known = self.stacks.count() < self.budget || self.stacks.has(&key(wait.stack));
        let stack = wait.stack.filter(|_| known);
        self.stacks.add(FoldedWaitStack {
            stack,
            ..FoldedWaitStack::from(wait)
        });
    }

    /// Keeps at most as many stacks of folded waits as waits: those with the least time lose their place in the call
    /// tree.
    pub fn shrink_stacks(&mut self) {
        if self.stacks.count() <= self.budget {
            return;
        }
        let mut all = take(&mut self.stacks).into_rows();
        all.select_nth_unstable_by_key(self.budget, |sum| {
            let time = sum.blocked.saturating_add(sum.queued);
            (Reverse(time), sum.thread, sum.stack, sum.reason, sum.in_fault)
        });
        for (mut sum, place) in all.into_iter().zip(0..) {
            sum.stack = sum.stack.filter(|_| place < self.budget);
            self.stacks.add(sum);
        }
    }

    /// Distributes the waits to their threads, and notes in the recording which were folded.
    pub fn finish(
        mut self,
        threads: &mut [ThreadFacts],
        recording: &mut Recording,
    ) -> (WaitTotals, Vec<FoldedWaitStack>) {
        self.fit();
        let mut folded = self.folded.into_sorted();
        let totals = totals(&folded, &self.kept);
        let seen = totals.values().fold(0, |sum: u64, of| sum.saturating_add(of.waits));
        let before = take(&mut recording.folded_waits);
        if !before.is_empty() {
            let mut all = KeyedSums::default();
            before.into_iter().chain(folded).for_each(|more| all.add(more));
            folded = all.into_sorted();
        }
        for wait in self.kept {
            if let Some(thread) = threads.get_mut(wait.thread.index()) {
                thread.waits.push(wait);
            }
        }
        for thread in threads {
            thread.waits.sort_by_key(|wait| (wait.end, wait.start));
        }
        recording.waits_seen = recording.waits_seen.max(seen);
        recording.folded_waits = folded;
        let mut stacks = self.stacks.into_rows();
        FoldedWaitStack::sort(&mut stacks);
        (totals, stacks)
    }
}

/// Sums of folded and kept waits.
fn totals(folded: &[FoldedWaits], kept: &[WaitFact]) -> WaitTotals {
    let mut sums = KeyedSums::default();
    let kept = kept.iter().map(FoldedWaits::from);
    folded.iter().copied().chain(kept).for_each(|more| sums.add(more));
    let total = |sum: FoldedWaits| {
        let FoldedWaits { waits, off, queued, .. } = sum;
        (sum.key(), WaitSum { waits, off, queued })
    };
    sums.into_sorted().into_iter().map(total).collect()
}

impl From<&WaitFact> for FoldedWaits {
    fn from(wait: &WaitFact) -> Self {
        Self {
            thread: wait.thread,
            reason: wait.reason,
            waits: u64::from(wait.count),
            off: ns(wait.off),
            queued: ns(wait.queued),
            longest: ns(wait.longest),
        }
    }
}

impl From<&WaitFact> for FoldedWaitStack {
    fn from(wait: &WaitFact) -> Self {
        Self {
            thread: wait.thread,
            stack: wait.stack,
            reason: wait.reason,
            in_fault: wait.in_fault,
            time: wait.end,
            blocked: ns(wait.blocked()),
            queued: ns(wait.queued),
        }
    }
}

summed!(
    FoldedWaitStack,
    by thread: ThreadId, stack: Option<StackId>, reason: WaitReason, in_fault: bool;
    add blocked, queued;
    max time
);
summed!(FoldedWaits, by thread: ThreadId, reason: WaitReason; add waits, off, queued; max longest);
