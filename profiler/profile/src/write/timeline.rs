//! A thread's CPU samples and waits merged in its `samples` table, so its call tree shows
//! wall-clock time.
//!
//! The rows weigh milliseconds: a sample weighs the CPU time since the previous one, a wait its
//! off-CPU time. A wait has a row without weight at its start and one with its weight at its end
//! (several if it is long, so a selected part of it has its share of the weight); the part that
//! waited for a CPU is a separate row. The front end ignores CPU time that is longer than the time
//! between two rows, so the CPU time of a sample is distributed over the intervals in which the
//! thread ran since the previous sample.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::sample::SampleRows;
use crate::shared::Shared;
use crate::shared::columns::{column, deltas, object};
use crate::shared::labels::{Label, Labels, QUEUED};
use crate::units::milliseconds;
use base::addr::{Timestamp, ns};
use fact::reduce::budget::{Collected, FoldedWaitStack, ThreadFacts};
use fact::{ThreadId, WaitFact};

/// Maximum parts of a wait that spans the whole recording.
const PARTS: u64 = 250;
/// Maximum number of rows added by splitting waits.
const CUTS: u64 = 50_000;
/// Minimum length of a part, in ns.
const SHORTEST_PART: u64 = 10_000_000;
/// Maximum number of simultaneous waits of one thread that are distinguished: only damaged data has
/// more than two.
const OPEN: usize = 16;

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineRow {
    /// Time of the row.
    pub time: Timestamp,
    /// Row of the stack table.
    stack: Option<u32>,
    /// Weight in ns.
    weight: u64,
    /// CPU time since the previous row, in ns.
    pub cpu: u64,
    /// Whether it ends the CPU time of a sample.
    is_sample: bool,
}

/// Common data for the waits of all threads.
#[derive(Debug)]
pub struct Waiting<'a> {
    /// Labelled stacks of what threads wait for.
    labels: &'a Labels,
    /// Maximum length of a part of a wait, in ns.
    part: u64,
    folded: FxHashMap<ThreadId, Vec<FoldedWaitStack>>,
}

impl<'a> Waiting<'a> {
    /// The data for a profile of this length; `None`: there are no waits.
    pub fn new(collected: &Collected, labels: &'a Labels, (zero, end): (Timestamp, Timestamp)) -> Option<Self> {
        if collected.waits.is_empty() {
            return None;
        }
        let waits = collected.threads.iter().flat_map(|thread| &thread.waits);
        let all = waits.fold(0u64, |sum, wait| sum.saturating_add(ns(wait.off)));
        let length = end.0.saturating_sub(zero.0);
        let mut folded: FxHashMap<ThreadId, Vec<FoldedWaitStack>> = FxHashMap::default();
        for stack in &collected.folded_wait_stacks {
            folded.entry(stack.thread).or_default().push(*stack);
        }
        Some(Self {
            labels,
            part: (length / PARTS).max(all / CUTS).max(SHORTEST_PART),
            folded,
        })
    }
}

impl Waiting<'_> {
    /// All rows of a thread, times ascending. The row for the thread's start is removed if a wait
    /// begins there.
    pub fn rows(
        &self,
        rows: &mut SampleRows<'_>,
        (thread, facts): (ThreadId, &ThreadFacts),
        shared: &Shared<'_>,
    ) -> Vec<TimelineRow> {
        let mut waiting = Vec::with_capacity(facts.waits.len() * 3);
        for wait in &facts.waits {
            self.add(&mut waiting, wait);
        }
        for folded in self.folded.get(&thread).into_iter().flatten() {
            self.add_folded(&mut waiting, folded);
        }
        let first = waiting.iter().map(|row| row.time).min();
        rows.lead = rows.lead.filter(|lead| first.is_none_or(|first| lead.time < first));
        let samples = rows.iter().map(|sample| TimelineRow {
            time: sample.time,
            stack: shared.stack_row(sample.stack),
            weight: sample.cpu_time,
            cpu: sample.cpu_time,
            is_sample: true,
        });
        let mut all: Vec<TimelineRow> = samples.collect();
        all.append(&mut waiting);
        // A wait that ends at the time of a sample precedes it.
        all.sort_by_key(|row| (row.time, row.is_sample));
        part_equal_times(&mut all);
        spread_cpu_time(&mut all, &facts.waits);
        all
    }

    fn add(&self, rows: &mut Vec<TimelineRow>, wait: &WaitFact) {
        let stack = self.labels.row(wait.stack, Label::Wait(wait.reason, wait.in_fault));
        let queued_stack = self.labels.row(wait.stack, QUEUED);
        let queued = ns(wait.queued).min(ns(wait.off));
        let blocked = ns(wait.off) - queued;
        let (start, end) = (wait.start.0.min(wait.end.0), wait.end.0);
        if wait.count > 1 {
            // The thread ran in between.
            rows.push(waiting_row(start + (end - start) / 2, stack, blocked));
            rows.extend((queued > 0).then(|| waiting_row(end, queued_stack, queued)));
            return;
        }
        let begin = if blocked > 0 { stack } else { queued_stack.or(stack) };
        rows.push(waiting_row(start, begin, 0));
        let middle = end.saturating_sub(queued).max(start);
        self.add_parts(rows, (start, middle), (stack, blocked));
        self.add_parts(rows, (middle, end), (queued_stack, queued));
    }

    /// Rows at the ends of the parts of an interval.
    fn add_parts(&self, rows: &mut Vec<TimelineRow>, (start, end): (u64, u64), (stack, weight): (Option<u32>, u64)) {
        if weight == 0 {
            return;
        }
        let parts = ((end - start) / self.part).clamp(1, PARTS);
        let until = |whole: u64, number: u64| {
            let part = u128::from(whole) * u128::from(number) / u128::from(parts);
            u64::try_from(part).unwrap_or(whole)
        };
        for number in 1..=parts {
            let part = until(weight, number) - until(weight, number - 1);
            rows.push(waiting_row(start + until(end - start, number), stack, part));
        }
    }

    fn add_folded(&self, rows: &mut Vec<TimelineRow>, folded: &FoldedWaitStack) {
        let stack = self
            .labels
            .row(folded.stack, Label::Wait(folded.reason, folded.in_fault));
        let queued_stack = self.labels.row(folded.stack, QUEUED);
        for (stack, weight) in [(stack, folded.blocked), (queued_stack, folded.queued)] {
            rows.extend((weight > 0).then(|| waiting_row(folded.time.0, stack, weight)));
        }
    }
}

fn waiting_row(time: u64, stack: Option<u32>, weight: u64) -> TimelineRow {
    TimelineRow {
        time: Timestamp(time),
        stack,
        weight,
        cpu: 0,
        is_sample: false,
    }
}

/// The front end draws two rows at the same time as a busy CPU: rows of waits are moved by a
/// nanosecond each, up to the next sample.
fn part_equal_times(rows: &mut [TimelineRow]) {
    let mut limits = vec![u64::MAX; rows.len()];
    let mut limit = u64::MAX;
    for (slot, row) in limits.iter_mut().zip(&*rows).rev() {
        if row.is_sample {
            limit = row.time.0;
        }
        *slot = limit;
    }
    for index in 1..rows.len() {
        let next = rows[index - 1].time.0.saturating_add(1);
        let row = &mut rows[index];
        if !row.is_sample && row.time.0 < next {
            row.time.0 = next.min(limits[index]);
        }
    }
}

/// Off-CPU time up to a moment that only moves forward.
struct OffTime<'a> {
    /// Starts ascending.
    coming: std::iter::Peekable<std::vec::IntoIter<&'a WaitFact>>,
    open: Vec<&'a WaitFact>,
    closed: u64,
}

impl<'a> OffTime<'a> {
    fn new(waits: &'a [WaitFact]) -> Self {
        let mut waits: Vec<&WaitFact> = waits.iter().collect();
        waits.sort_by_key(|wait| wait.start);
        Self {
            coming: waits.into_iter().peekable(),
            open: Vec::new(),
            closed: 0,
        }
    }

    fn until(&mut self, time: Timestamp) -> u64 {
        while let Some(wait) = self.coming.next_if(|wait| wait.start <= time) {
            self.open.push(wait);
        }
        let excess = self.open.len().saturating_sub(OPEN);
        let mut number = 0;
        self.open.retain(|wait| {
            number += 1;
            let stays = wait.end > time && number > excess;
            if !stays {
                self.closed = self.closed.saturating_add(ns(wait.off));
            }
            stays
        });
        self.open.iter().fold(self.closed, |sum, wait| {
            let (passed, length) = (time.0 - wait.start.0, wait.end.0 - wait.start.0);
            let part = u128::from(ns(wait.off)) * u128::from(passed) / u128::from(length.max(1));
            sum.saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
        })
    }
}

/// Distributes each sample's CPU time over the intervals since the previous sample, by how long the
/// thread ran in each.
fn spread_cpu_time(rows: &mut [TimelineRow], waits: &[WaitFact]) {
    let mut off = OffTime::new(waits);
    // By row: time since the previous row, and how long the thread ran in it.
    let mut stretches: Vec<(u64, u64)> = Vec::with_capacity(rows.len());
    let mut last: Option<(Timestamp, u64)> = None;
    for row in rows.iter() {
        let off = off.until(row.time);
        stretches.push(last.map_or((0, 0), |(time, before)| {
            let length = row.time.0.saturating_sub(time.0);
            (length, length.saturating_sub(off.saturating_sub(before)))
        }));
        last = Some((row.time, off));
    }
    let mut begin = 0;
    for end in 0..rows.len() {
        if rows[end].is_sample {
            let cpu = rows[end].cpu;
            share_out(cpu, &mut rows[begin..=end], &stretches[begin..=end]);
            begin = end + 1;
        }
    }
}

/// Distributes by the time that the thread ran in each interval; the remainder goes to intervals
/// with capacity, and finally to the sample itself.
fn share_out(cpu: u64, rows: &mut [TimelineRow], stretches: &[(u64, u64)]) {
    let ran = stretches.iter().fold(0u128, |sum, (_, ran)| sum + u128::from(*ran));
    let mut left = cpu;
    for (row, (_, own)) in rows.iter_mut().zip(stretches) {
        let part = (u128::from(cpu) * u128::from(*own)).checked_div(ran).unwrap_or(0);
        row.cpu = u64::try_from(part).unwrap_or(u64::MAX).min(*own).min(left);
        left -= row.cpu;
    }
    for (row, (length, _)) in rows.iter_mut().zip(stretches).rev() {
        let more = length.saturating_sub(row.cpu).min(left);
        row.cpu += more;
        left -= more;
    }
    if let Some(sample) = rows.last_mut() {
        sample.cpu += left;
    }
}

/// The table; times are relative to the profile's time 0.
pub fn table(rows: &[TimelineRow], zero: Timestamp) -> impl Serialize {
    object! {
        "length": rows.len(),
        "weightType": "tracing-ms",
        "stack": column(rows, |row| row.stack),
        "timeDeltas": deltas(rows.iter().map(|row| row.time), zero),
        "weight": column(rows, |row| milliseconds(std::time::Duration::from_nanos(row.weight))),
        "threadCPUDelta": column(rows, |row| row.cpu),
    }
}

#[cfg(test)]
mod tests;
