//! Merges the least active threads where a profile has too many: an hour of builds has a hundred thousand.
//!
//! A process that keeps any thread has one extra row for its other threads. All other processes have one row per
//! program. CPU samples, markers and faults of such a row are those of its threads; waits are summed up by stack,
//! since they overlap.

mod facts;
mod tables;

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::reduce::budget::Collected;
use crate::{MergedThreads, Process, ProcessId, Tables, Thread, ThreadId};

/// Maximum number of threads with their own row.
pub const THREADS: usize = 8192;
/// Maximum number of programs with their own row; the others share one.
const PROGRAMS: usize = 256;
/// Name of the row for processes of other programs.
const OTHERS: &str = "other programs";

/// Which threads share a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Group {
    /// Other threads of a process that keeps some.
    Rest(ProcessId),
    /// All threads of a program's processes.
    Program(String),
}

/// Mapping from old to new numbers.
#[derive(Debug)]
struct Plan {
    /// New number by old thread.
    threads: Vec<ThreadId>,
    /// New number by old process.
    processes: Vec<ProcessId>,
    /// By old process: whether it keeps a thread with its own row.
    stays: Vec<bool>,
    /// Number of threads with their own row: they have the first numbers.
    singles: usize,
    /// Rows of merged threads, numbered above the single threads: their members, old numbers ascending.
    members: Vec<(Group, Vec<ThreadId>)>,
}

impl Plan {
    fn thread(&self, old: ThreadId) -> ThreadId {
        self.threads.get(old.index()).copied().unwrap_or(old)
    }

    fn process(&self, old: ProcessId) -> ProcessId {
        self.processes.get(old.index()).copied().unwrap_or(old)
    }

    fn is_gathered(&self, old: ThreadId) -> bool {
        self.thread(old).index() >= self.singles
    }
}

/// Keeps a row for each of the `most` busiest threads and merges the others, if there are more.
pub fn gather(most: usize, tables: &mut Tables, collected: &mut Collected) {
    if tables.threads.len() <= most {
        return;
    }
    let plan = plan(most, tables, collected);
    tables::gather(tables, &plan, collected);
    facts::gather(collected, &mut tables.recording, &plan);
}

/// Decides which threads keep their own row.
fn plan(most: usize, tables: &Tables, collected: &Collected) -> Plan {
    let alone = busiest(most, tables, collected);
    let mut stays = vec![false; tables.processes.len()];
    for (thread, _) in tables.threads.iter().zip(&alone).filter(|(_, alone)| **alone) {
        if let Some(stays) = stays.get_mut(thread.process.index()) {
            *stays = true;
        }
    }
    let mut names: FxHashSet<&str> = FxHashSet::default();
    let mut places: FxHashMap<Group, usize> = FxHashMap::default();
    let mut members: Vec<(Group, Vec<ThreadId>)> = Vec::new();
    let mut place_of = vec![None; tables.threads.len()];
    for (index, thread) in tables.threads.iter().enumerate().filter(|(index, _)| !alone[*index]) {
        let process = tables.processes.get(thread.process.index());
        let group = if stays.get(thread.process.index()) == Some(&true) {
            Group::Rest(thread.process)
        } else {
            let name = process.map_or("", |process| &*process.name);
            let has_room = names.len() < PROGRAMS || names.contains(name);
            if has_room {
                names.insert(name);
            }
            Group::Program(if has_room { name } else { OTHERS }.to_owned())
        };
        let place = *places.entry(group.clone()).or_insert_with(|| {
            members.push((group, Vec::new()));
            members.len() - 1
        });
        members[place].1.push(ThreadId(number(index)));
        place_of[index] = Some(place);
    }
    let singles = alone.iter().filter(|alone| **alone).count();
    let mut next = 0;
    let mut single = || {
        next += 1;
        next - 1
    };
    let threads = place_of
        .iter()
        .map(|place| place.map_or_else(&mut single, |place| singles + place));
    let threads = threads.map(|place| ThreadId(number(place))).collect();
    Plan {
        threads,
        processes: processes(tables, &stays, &members),
        stays,
        singles,
        members,
    }
}

/// New process numbers: first those that stay, then one for each program.
fn processes(tables: &Tables, stays: &[bool], members: &[(Group, Vec<ThreadId>)]) -> Vec<ProcessId> {
    let staying = stays.iter().filter(|stays| **stays).count();
    let mut programs = FxHashMap::default();
    let groups = members.iter().filter(|(group, _)| matches!(group, Group::Program(_)));
    for ((_, threads), place) in groups.zip(staying..) {
        for thread in threads.iter().filter_map(|thread| tables.threads.get(thread.index())) {
            programs.insert(thread.process, place);
        }
    }
    let mut next = 0;
    let new = stays.iter().enumerate().map(|(index, stays)| {
        if *stays {
            next += 1;
            return ProcessId(number(next - 1));
        }
        // A process without threads belongs to no row: it joins the first.
        let place = programs.get(&ProcessId(number(index))).copied();
        ProcessId(number(place.unwrap_or(0)))
    });
    new.collect()
}

/// By thread: whether it is among those that ran, or were held up, longest. The command's main thread always is.
fn busiest(most: usize, tables: &Tables, collected: &Collected) -> Vec<bool> {
    let mut times: Vec<u64> = tables
        .threads
        .iter()
        .map(|thread| thread.cpu_time_after_last_sample)
        .collect();
    let mut add = |thread: ThreadId, time: u64| {
        if let Some(sum) = times.get_mut(thread.index()) {
            *sum = sum.saturating_add(time);
        }
    };
    for (facts, thread) in collected.threads.iter().zip((0..).map(ThreadId)) {
        facts.samples.iter().for_each(|sample| add(thread, sample.cpu_time));
    }
    for ((thread, reason), sum) in &collected.waits {
        if !reason.is_idle() {
            add(*thread, sum.off);
        }
    }
    let command = tables.command_process().and_then(|id| tables.processes.get(id.index()));
    if let Some(main) = command.and_then(|process| process.main_thread) {
        add(main, u64::MAX);
    }
    let mut order: Vec<usize> = (0..tables.threads.len()).collect();
    order.sort_by_key(|index| (Reverse(times[*index]), !tables.threads[*index].is_main, *index));
    let mut alone = vec![false; tables.threads.len()];
    for index in order.into_iter().take(most) {
        alone[index] = true;
    }
    alone
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
