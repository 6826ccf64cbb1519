//! The limit for the number of sums: an hour of a browser has tens of millions of combinations of threads and stacks, and no reader opens a
//! profile with all of them.
//!
//! If there are too many sums, threads of ended processes are merged by process and thread name, and files by path, because a few names of
//! shared memory may have hundreds of thousands of files. If that is not enough, the lightest sums of each table lose half of their frames at a
//! time, innermost first, and their files; finally, they lose their threads. Totals do not change.

use std::cmp::Reverse;
use std::mem::take;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Key, Name, Subject, Sum, Sums, Table, Who};
use fact::{StackId, Tables, Visit, upwards, visit_keys, visit_stack};

/// The largest number of sums; each takes a few hundred bytes in the output.
pub const SUMS: usize = 1 << 20;
/// The largest number of stacks to keep for them, including callers.
const STACKS: usize = 1 << 22;
/// The number of sums that is always permitted, regardless of their stacks.
const LEAST: usize = 1 << 12;

impl Sums {
    /// Merges sums until a quarter of the limit is free.
    pub(super) fn make_room(&mut self, tables: &Tables) {
        self.gathers = true;
        for (mut key, sum) in take(&mut self.by_key) {
            key.who = self.attributed_thread(tables, key.who);
            key.file = key.file.map(|file| self.attributed_file(tables, file));
            self.by_key.entry(key).or_default().add(sum);
        }
        self.shrink(tables, self.room - self.room / 4);
    }

    /// The thread that a sum is attributed to: its name once threads of ended processes are merged.
    pub(super) fn attributed_thread(&mut self, tables: &Tables, who: Who) -> Who {
        let Who::Thread(id) = who else { return who };
        let thread = tables.threads.get(id.index()).filter(|_| self.gathers);
        let Some(thread) = thread.filter(|thread| self.ended.contains(&thread.process)) else {
            return who;
        };
        self.gathered = true;
        let process = tables.processes.get(thread.process.index());
        self.named(&Name {
            process: process.map(|process| process.name.as_str().into()),
            thread: thread.name.clone(),
            cgroup: process.and_then(|process| process.cgroup.clone()),
        })
    }

    /// The file that a sum is attributed to: the first of the same path once files are merged.
    pub(super) fn attributed_file(&mut self, tables: &Tables, subject: Subject) -> Subject {
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

    /// Visits the stacks of all sums.
    pub(super) fn visit_stacks(&mut self, visit: &mut dyn Visit) {
        let each = |key: &mut Key, _: &mut Sum, visit: &mut dyn Visit| visit_stack(&mut key.stack, visit);
        visit_keys(&mut self.by_key, visit, each, |sum, more| sum.add(*more));
    }

    /// Halves the limit if there are too many stacks. True if there may be fewer now.
    pub(super) fn keeps_fewer(&mut self, tables: &Tables) -> bool {
        let room = LEAST.max(self.room / 2).min(self.room);
        if tables.stacks.len() <= STACKS || room == self.room {
            return false;
        }
        self.room = room;
        self.make_room(tables);
        true
    }

    /// Sentences about what was merged or cut; known when finished.
    pub fn left_out(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.gathered {
            said.push(
                "there are too many threads: those of ended processes are merged by process and thread name".to_owned(),
            );
        }
        if self.cut > 0 {
            let stacks = match self.cut {
                1 => "1 stack was cut to its outer frames".to_owned(),
                cut => format!("{cut} stacks were cut to their outer frames"),
            };
            said.push(format!(
                "{stacks}, lightest first: there are too many distinct stacks; choose fewer tables"
            ));
        }
        said
    }

    /// Reduces the lightest sums until at most `most` sums remain.
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

/// A key with half of the frames; without a stack and a file, the thread is removed.
fn lighter(tables: &Tables, key: Key) -> Key {
    let who = if key.stack.is_none() && key.file.is_none() {
        Who::Unknown
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
