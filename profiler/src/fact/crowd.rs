//! Threads that did least are told together where there are too many for a profile: an hour of builds has a hundred thousand of them.
//!
//! A process of which any thread stays has one row more for its other threads. All other processes have one row for each program. CPU samples,
//! markers and faults of such a row are its threads' own; waits are summed up by stack, since they overlap.

mod facts;
mod tables;

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::budget::Collected;
use super::{Process, ProcessId, Tables, Thread, ThreadId};

/// Threads with a row of their own, at most.
pub const THREADS: usize = 8192;
/// Programs that are told apart; the others are one.
const PROGRAMS: usize = 256;
/// What the processes of other programs are called.
const OTHERS: &str = "other programs";

/// A row that stands for several threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowd {
    /// The row.
    pub thread: ThreadId,
    /// How many threads.
    pub threads: u64,
    /// How many of them have CPU samples.
    pub ran: u64,
    /// How many processes these belong to; 0: the process has rows of its own beside.
    pub processes_ran: u64,
}

/// Who is told together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Group {
    /// Other threads of a process that has some of its own.
    Rest(ProcessId),
    /// All threads of a program's processes.
    Program(String),
}

/// Old numbers and new ones.
#[derive(Debug)]
struct Plan {
    /// By old thread: its new number.
    threads: Vec<ThreadId>,
    /// By old process: its new number.
    processes: Vec<ProcessId>,
    /// By old process: it keeps a thread with a row of its own.
    stays: Vec<bool>,
    /// Threads with a row of their own: they have the first numbers.
    singles: usize,
    /// Rows of threads that are told together, by number above those of single threads: their members, old numbers ascending.
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

/// Leaves the `most` busiest threads a row of their own, and tells the others together, if there are more.
pub fn gather(most: usize, tables: &mut Tables, collected: &mut Collected) {
    if tables.threads.len() <= most {
        return;
    }
    let plan = plan(most, tables, collected);
    tables::gather(tables, &plan, collected);
    facts::gather(collected, &mut tables.recording, &plan);
}

/// Decides who stays alone.
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

/// New numbers: those that stay, then one for each program.
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
        // One without threads is nobody's: it goes with the first.
        let place = programs.get(&ProcessId(number(index))).copied();
        ProcessId(number(place.unwrap_or(0)))
    });
    new.collect()
}

/// By thread: it is among those that ran, or were held up, longest. The command's main thread always is.
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
