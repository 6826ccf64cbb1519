//! Room for sums: an hour of a browser has tens of millions of threads times stacks, and no reader opens a profile of all of them.
//!
//! Where there are too many, threads of processes that are over are told by the names of process and thread, and files of one path are one: shared memory of a few
//! names comes in hundreds of thousands. What is still too much is taken from the
//! lightest sums of each table: half of their frames at a time, from the innermost on, and their files; in the end who it was. Totals stay.

use std::cmp::Reverse;
use std::mem::take;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Key, Name, Subject, Sum, Sums, Table, Who};
use crate::fact::{StackId, Tables, Visit, upwards, visit_keys, visit_stack};

/// Sums at most: of some hundred bytes each in what is written.
pub const SUMS: usize = 1 << 20;
/// Stacks that may be kept for them, callers counted.
const STACKS: usize = 1 << 22;
/// Sums that there may be whatever stacks they have.
const LEAST: usize = 1 << 12;

impl Sums {
    /// Leaves a quarter of the room free.
    pub(super) fn make_room(&mut self, tables: &Tables) {
        self.gathers = true;
        for (mut key, sum) in take(&mut self.by_key) {
            key.who = self.teller(tables, key.who);
            key.file = key.file.map(|file| self.told_as(tables, file));
            self.by_key.entry(key).or_default().add(sum);
        }
        self.shrink(tables, self.room - self.room / 4);
    }

    /// Who it is told of.
    pub(super) fn teller(&mut self, tables: &Tables, who: Who) -> Who {
        let Who::Thread(id) = who else { return who };
        let thread = tables.threads.get(id.index()).filter(|_| self.gathers);
        let Some(thread) = thread.filter(|thread| self.over.contains(&thread.process)) else {
            return who;
        };
        self.gathered = true;
        let process = tables.processes.get(thread.process.index());
        self.named(Name {
            process: process.map(|process| process.name.as_str().into()),
            thread: thread.name.clone(),
        })
    }

    /// The first file that is told by the same path.
    pub(super) fn told_as(&mut self, tables: &Tables, subject: Subject) -> Subject {
        let Subject::File(id) = subject else { return subject };
        let file = tables
            .files
            .get(id.index())
            .filter(|file| self.gathers && !file.path.is_empty());
        file.map_or(subject, |file| {
            let first = self.files.entry((Arc::clone(&file.path), file.deleted)).or_insert(id);
            Subject::File(*first)
        })
    }

    /// Shows the stacks.
    pub(super) fn visit_stacks(&mut self, visit: &mut dyn Visit) {
        let each = |key: &mut Key, _: &mut Sum, visit: &mut dyn Visit| visit_stack(&mut key.stack, visit);
        visit_keys(&mut self.by_key, visit, each, |sum, more| sum.add(*more));
    }

    /// Keeps half as many, if there are too many stacks. True: these are fewer now.
    pub(super) fn keeps_fewer(&mut self, tables: &Tables) -> bool {
        let room = LEAST.max(self.room / 2).min(self.room);
        if tables.stacks.len() <= STACKS || room == self.room {
            return false;
        }
        self.room = room;
        self.make_room(tables);
        true
    }

    /// What there was no room for, a sentence each; known when finished.
    pub fn left_out(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.gathered {
            said.push(
                "threads of processes that ended are told by the names of process and thread: there are too many"
                    .to_owned(),
            );
        }
        if self.cut > 0 {
            let (cut, stacks) = (self.cut, if self.cut == 1 { "stack was" } else { "stacks were" });
            said.push(format!("{cut} {stacks} cut to their outer frames, those with the least time: there are too many that differ; choose fewer tables"));
        }
        said
    }

    /// Takes from the lightest until there are no more than so many.
    fn shrink(&mut self, tables: &Tables, most: usize) {
        while self.by_key.len() > most {
            let part = (most / self.wanted.len().max(1)).max(1);
            let mut sums: Vec<(Key, Sum)> = self.by_key.drain().collect();
            sums.sort_unstable_by_key(|(key, sum)| (key.what.table(), Reverse((sum.time, sum.count)), *key));
            let mut seen: FxHashMap<Table, usize> = FxHashMap::default();
            let mut took = false;
            for (key, sum) in sums {
                let place = seen.entry(key.what.table()).or_default();
                *place += 1;
                let less = if *place > part / 2 { lighter(tables, key) } else { key };
                took |= less != key;
                self.by_key.entry(less).or_default().add(sum);
            }
            if !took {
                return;
            }
        }
    }
}

/// A key with half of the frames; without any, who it was goes.
fn lighter(tables: &Tables, key: Key) -> Key {
    let who = if key.stack.is_none() && key.file.is_none() {
        Who::Nobody
    } else {
        key.who
    };
    Key {
        who,
        stack: key.stack.and_then(|stack| outer_half(tables, stack)),
        cut: key.cut || key.stack.is_some(),
        file: None,
        ..key
    }
}

/// The outer half of a stack.
fn outer_half(tables: &Tables, stack: StackId) -> Option<StackId> {
    let depth = upwards(tables, stack).count();
    let mut at = Some(stack);
    for _ in 0..depth.div_ceil(2) {
        at = at.and_then(|stack| tables.stacks.get(stack.index())?.parent);
    }
    at
}

#[cfg(test)]
mod tests;
