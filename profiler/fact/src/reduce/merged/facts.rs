//! Facts after threads were merged: the same sums with new numbers.

use std::mem::take;

use super::{Plan, ThreadId};
use crate::reduce::budget::{Collected, FoldedStack, FoldedWaitStack, ThreadFacts, WaitTotals};
use crate::reduce::finding_inputs::FindingInputs;
use crate::reduce::sums::{KeyedSums, Sum};
use crate::{Cause, Effect, EffectKind, FoldedWaits, Reason, Recording, WaitFact};

/// Renumbers all facts and sums up the waits of merged threads.
pub fn gather(collected: &mut Collected, recording: &mut Recording, plan: &Plan) {
    let mut threads: Vec<ThreadFacts> = Vec::new();
    let rows = plan.threads.iter().map(|thread| thread.index() + 1).max();
    threads.resize_with(rows.unwrap_or(0), ThreadFacts::default);
    let mut folded = Vec::new();
    for (facts, old) in take(&mut collected.threads).into_iter().zip((0..).map(ThreadId)) {
        let new = plan.thread(old);
        let Some(row) = threads.get_mut(new.index()) else {
            continue;
        };
        if plan.is_gathered(old) {
            folded.extend(facts.waits);
        } else {
            row.waits = facts.waits;
        }
        row.samples.extend(facts.samples);
        row.marks.extend(facts.marks);
        row.reads.extend(facts.reads);
        row.faults = take(&mut row.faults).with(facts.faults);
    }
    for (row, thread) in threads.iter_mut().zip((0..).map(ThreadId)) {
        renumber(row, thread, plan);
    }
    collected.threads = threads;
    sums(collected, recording, plan, &folded);
    let bios = collected.requests.iter_mut().flat_map(|request| &mut request.bios);
    for bio in bios {
        bio.thread = bio.thread.map(|thread| plan.thread(thread));
    }
    causes(&mut collected.causes, plan);
    inputs(&mut collected.inputs, plan);
    collected.faults.rates.join(|process| plan.process(process));
}

/// Sets the new thread of the facts, and sorts those of several threads.
fn renumber(row: &mut ThreadFacts, thread: ThreadId, plan: &Plan) {
    row.samples.sort_by_key(|sample| sample.time);
    row.marks.iter_mut().for_each(|mark| mark.thread = thread);
    row.marks.sort_by_key(|mark| mark.start);
    row.reads.iter_mut().for_each(|read| read.thread = thread);
    row.reads.sort_by_key(|read| read.time);
    row.faults = take(&mut row.faults).of_thread(thread);
    for wait in &mut row.waits {
        wait.thread = thread;
        if let Some(waker) = &mut wait.waker {
            waker.thread = waker.thread.map(|waker| plan.thread(waker));
        }
        if let Some(holder) = wait.lock.as_mut().and_then(|lock| lock.holder.as_mut()) {
            holder.thread = holder.thread.map(|holder| plan.thread(holder));
        }
    }
}

/// Renumbers the sums, and adds the waits that become sums.
fn sums(collected: &mut Collected, recording: &mut Recording, plan: &Plan, folded: &[WaitFact]) {
    recording.folded_faults = joined(take(&mut recording.folded_faults), |sum| {
        sum.thread = plan.thread(sum.thread);
    });
    let mut waits = take(&mut recording.folded_waits);
    waits.extend(folded.iter().map(FoldedWaits::from));
    recording.folded_waits = joined(waits, |sum| {
        sum.thread = plan.thread(sum.thread);
    });
    let mut totals = WaitTotals::new();
    for ((thread, reason), more) in take(&mut collected.waits) {
        totals.entry((plan.thread(thread), reason)).or_default().join(&more);
    }
    collected.waits = totals;
    collected.folded_stacks = joined(take(&mut collected.folded_stacks), |sum| {
        sum.thread = plan.thread(sum.thread);
    });
    FoldedStack::sort(&mut collected.folded_stacks);
    let mut stacks = take(&mut collected.folded_wait_stacks);
    stacks.extend(folded.iter().map(FoldedWaitStack::from));
    stacks = joined(stacks, |sum| {
        sum.thread = plan.thread(sum.thread);
    });
    FoldedWaitStack::sort(&mut stacks);
    collected.folded_wait_stacks = stacks;
}

fn joined<T: Sum>(all: Vec<T>, renumber: impl Fn(&mut T)) -> Vec<T> {
    let mut sums = KeyedSums::default();
    for mut more in all {
        renumber(&mut more);
        sums.add(more);
    }
    sums.into_sorted()
}

/// Removes causes of waits that are now only sums.
fn causes(causes: &mut Vec<Cause>, plan: &Plan) {
    let is_summed_up = |effect: &Effect| effect.kind == EffectKind::Wait && plan.is_gathered(effect.thread);
    causes.retain(|cause| !is_summed_up(&cause.effect));
    for cause in &mut *causes {
        cause.effect.thread = plan.thread(cause.effect.thread);
        match &mut cause.reason {
            Reason::Request(request) => request.by = request.by.map(|by| plan.thread(by)),
            Reason::Holder(holder) => holder.effect.thread = plan.thread(holder.effect.thread),
        }
    }
    causes.sort_by_key(|cause| cause.effect);
}

fn inputs(inputs: &mut FindingInputs, plan: &Plan) {
    inputs.waits = joined(take(&mut inputs.waits), |sum| {
        sum.thread = plan.thread(sum.thread);
    });
    inputs.copies = joined(take(&mut inputs.copies), |sum| {
        sum.process = plan.process(sum.process);
    });
}
