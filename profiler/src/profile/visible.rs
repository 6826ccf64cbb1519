//! Which threads are shown when a profile opens.
//!
//! The front end's own choice hides threads that mostly wait. Shown here: every thread with at least one percent of
//! the recording's CPU time, those that were held up for a twentieth of its length, the main threads of the busiest processes, so
//! that each of those has its track, and the command's main thread. Selected: the command's main thread if it is one of the busy ones, else the busiest thread.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::sample::Rows;
use crate::addr::Timestamp;
use crate::fact::budget::{Collected, ThreadFacts};
use crate::fact::{Tables, Thread, ThreadId, WaitReason};

/// A thread is busy with this much of the CPU time: one part in so many.
const BUSY_PART: u64 = 100;
/// A thread was held up with this much of the recording's length: one part in so many.
const HELD_UP_PART: u64 = 20;
/// Processes whose main threads are shown.
const BUSIEST_PROCESSES: usize = 10;

/// The threads to show and the one to select; the latter is among the former.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    /// In the order of their numbers.
    pub shown: Vec<ThreadId>,
    /// `None` only if there is no thread.
    pub selected: Option<ThreadId>,
}

/// Chooses, for a profile from the first of `times` to the second.
pub fn choose(tables: &Tables, collected: &Collected, times: (Timestamp, Timestamp)) -> Visible {
    let cpu = |(thread, facts): (&Thread, &ThreadFacts)| Rows::new(thread, &facts.samples, times).cpu_time();
    let cpu = tables.threads.iter().zip(&collected.threads).map(cpu);
    let mut threads: Vec<(u64, ThreadId)> = cpu.zip((0..).map(ThreadId)).collect();
    let total = threads.iter().fold(0u64, |sum, (cpu, _)| sum.saturating_add(*cpu));
    let mut processes = vec![0u64; tables.processes.len()];
    for (cpu, id) in &threads {
        let process = tables.threads.get(id.index()).map(|thread| thread.process.index());
        if let Some(sum) = process.and_then(|process| processes.get_mut(process)) {
            *sum = sum.saturating_add(*cpu);
        }
    }
    threads.sort_by_key(|(cpu, id)| (Reverse(*cpu), *id));
    let busy = |cpu: u64| cpu > 0 && cpu >= total / BUSY_PART;
    let mut shown: Vec<ThreadId> = threads
        .iter()
        .filter(|(cpu, _)| busy(*cpu))
        .map(|(_, id)| *id)
        .collect();

    let command = tables
        .command_process()
        .and_then(|process| tables.processes[process.index()].main_thread);
    let command = command.filter(|id| id.index() < tables.threads.len());
    let selected = command
        .filter(|id| shown.contains(id))
        .or(threads.first().map(|(_, id)| *id));

    let mut busiest: Vec<(u64, usize)> = processes.into_iter().zip(0..).filter(|(cpu, _)| *cpu > 0).collect();
    busiest.sort_by_key(|(cpu, index)| (Reverse(*cpu), *index));
    let mains = busiest
        .iter()
        .take(BUSIEST_PROCESSES)
        .filter_map(|(_, index)| tables.processes[*index].main_thread);
    shown.extend(held_up(collected, times));
    shown.extend(
        mains
            .chain(command)
            .chain(selected)
            .filter(|id| id.index() < tables.threads.len()),
    );
    shown.sort_unstable();
    shown.dedup();
    Visible { shown, selected }
}

/// Threads that waited long for something that somebody may want to do away with.
fn held_up(collected: &Collected, (zero, end): (Timestamp, Timestamp)) -> Vec<ThreadId> {
    use WaitReason::{Disk, FileSystem, Lock, Memory, RunQueue};
    let mut sums: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for ((thread, reason), waits) in &collected.waits {
        if matches!(reason, Disk | FileSystem | Lock | Memory | RunQueue) {
            let sum = sums.entry(*thread).or_default();
            *sum = sum.saturating_add(waits.off);
        }
    }
    let least = (end.0.saturating_sub(zero.0) / HELD_UP_PART).max(1);
    sums.retain(|_, off| *off >= least);
    sums.into_keys().collect()
}
