//! The recorded threads, by the ids that Firefox wrote.

use std::cell::RefCell;

use rustc_hash::{FxHashMap, FxHashSet};

use super::text::Tool;
use base::addr::Timestamp;
use fact::{ProcessId, Tables, ThreadId};

/// Bytes of a name that the kernel keeps.
const KERNEL_NAME: usize = 15;

/// Ids of a thread, and a time at which it existed.
pub type Wanted = (u32, u32, Timestamp);

/// The threads of a recording.
#[derive(Debug)]
pub enum Threads {
    /// As they were recorded.
    Known(Recorded),
    /// Not known yet: each thread that is searched is assumed to be recorded, and has the number of the search.
    Assumed(RefCell<Vec<Wanted>>),
}

impl Threads {
    /// The last thread with these ids that existed at a time, or the first one.
    pub fn find(&self, pid: u32, tid: u32, time: Timestamp) -> Option<ThreadId> {
        match self {
            Self::Known(recorded) => recorded.find((pid, tid, time)),
            Self::Assumed(searches) => {
                let mut searches = searches.borrow_mut();
                let number = u32::try_from(searches.len()).ok()?;
                searches.push((pid, tid, time));
                Some(ThreadId(number))
            }
        }
    }

    /// The process of a thread; that of an assumed one has the same number.
    pub fn process_of(&self, thread: ThreadId, tables: &Tables) -> Option<ProcessId> {
        match self {
            Self::Known(_) => Some(tables.threads.get(thread.index())?.process),
            Self::Assumed(_) => Some(ProcessId(thread.0)),
        }
    }
}

/// Threads by process and thread id, the earlier of the same id first.
#[derive(Debug)]
pub struct Recorded(FxHashMap<(u32, u32), Vec<(ThreadId, Timestamp)>>);

impl Recorded {
    /// The threads of a recording.
    pub fn new(tables: &Tables) -> Self {
        let mut threads: FxHashMap<_, Vec<_>> = FxHashMap::default();
        for (thread, id) in tables.threads.iter().zip((0..).map(ThreadId)) {
            let Some(process) = tables.processes.get(thread.process.index()) else {
                continue;
            };
            let key = (process.pid, thread.tid);
            threads.entry(key).or_default().push((id, thread.start));
        }
        // A row of merged threads has the id of one of them.
        let merged: FxHashSet<ThreadId> = tables
            .recording
            .merged_threads
            .iter()
            .map(|merged| merged.thread)
            .collect();
        for same in threads.values_mut() {
            same.sort_by_key(|(_, start)| *start);
            same.retain(|(id, _)| !merged.contains(id));
        }
        Self(threads)
    }

    /// The last thread with these ids that existed at a time, or the first one.
    pub fn find(&self, (pid, tid, time): Wanted) -> Option<ThreadId> {
        let same = self.0.get(&(pid, tid))?;
        let before = same.iter().rev().find(|(_, start)| *start <= time);
        before.or(same.first()).map(|(id, _)| *id)
    }
}

/// Completes a name that the kernel cut, or Firefox in its middle (`Backgro~Pool #1`), and replaces that of a main thread of
/// Chrome, which is the program's.
pub fn rename(tables: &mut Tables, id: ThreadId, name: &str, tool: Tool) {
    let Some(thread) = tables.threads.get_mut(id.index()) else {
        return;
    };
    let (first, last) = thread.name.split_once('~').unwrap_or((&thread.name, ""));
    let is_longer = thread.name.len() == KERNEL_NAME && name.starts_with(first) && name.ends_with(last);
    if is_longer || (thread.is_main && tool == Tool::Chrome) {
        name.clone_into(&mut thread.name);
    }
}
