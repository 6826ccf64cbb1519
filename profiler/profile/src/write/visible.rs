//! Selects the threads that are visible when a profile opens.
//!
//! The front end's default hides threads that mostly wait. Visible are every thread with at least
//! one percent of the recording's CPU time, threads that were held up for a twentieth of its
//! length, the main threads of the busiest processes, so each of those has its track, and the
//! command's main thread. Selected is the command's main thread if it is a busy one, else the
//! busiest thread.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::sample::SampleRows;
use base::addr::Timestamp;
use fact::reduce::budget::{Collected, ThreadFacts};
use fact::{Tables, Thread, ThreadId, WaitReason};

/// A thread is busy with at least this fraction (one in N) of the CPU time.
const BUSY_PART: u64 = 100;
/// A thread is held up with at least this fraction (one in N) of the recording's length.
const HELD_UP_PART: u64 = 20;
/// Maximum number of processes whose main threads are visible.
const BUSIEST_PROCESSES: usize = 10;

/// The visible threads and the selected one, which is among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    /// Sorted by their numbers.
    pub shown: Vec<ThreadId>,
    /// `None` only if there are no threads.
    pub selected: Option<ThreadId>,
}

/// Selects threads for a profile of this time range.
pub fn choose(tables: &Tables, collected: &Collected, times: (Timestamp, Timestamp)) -> Visible {
    let cpu = |(thread, facts): (&Thread, &ThreadFacts)| SampleRows::new(thread, &facts.samples, times).cpu_time();
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

/// Threads that were held up for long by something that a developer may want to eliminate.
fn held_up(collected: &Collected, (zero, end): (Timestamp, Timestamp)) -> Vec<ThreadId> {
    use WaitReason::{Disk, FileSystem, Lock, Memory, RunQueue, Throttled};
    let mut sums: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for ((thread, reason), waits) in &collected.waits {
        if matches!(reason, Disk | FileSystem | Lock | Memory | RunQueue | Throttled) {
            let sum = sums.entry(*thread).or_default();
            *sum = sum.saturating_add(waits.off);
        }
    }
    let least = (end.0.saturating_sub(zero.0) / HELD_UP_PART).max(1);
    sums.retain(|_, off| *off >= least);
    sums.into_keys().collect()
}
