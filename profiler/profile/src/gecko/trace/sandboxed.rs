//! Threads of sandboxed processes. Chrome writes their process ids as the browser sees them, and their thread ids as they
//! see them themselves, in a pid namespace where they are alone: 1 for the main thread, and 2, 3, … in the order of starts.

use rustc_hash::{FxHashMap, FxHashSet};

use super::event::Event;
use super::limits::short;
use base::addr::Timestamp;
use fact::{ProcessId, Tables, ThreadId};

/// Bytes of a name that the kernel keeps.
const KERNEL_NAME: usize = 15;

/// The threads of sandboxed processes, in the order of their starts.
pub struct Sandboxed<'a> {
    tables: &'a Tables,
    names: &'a FxHashMap<(u32, u32), String>,
    processes: FxHashMap<u32, Vec<(Timestamp, ThreadId)>>,
}

impl<'a> Sandboxed<'a> {
    /// The processes of events whose main thread is number 1.
    pub fn new(tables: &'a Tables, events: &[Event<'_>], names: &'a FxHashMap<(u32, u32), String>) -> Self {
        let mut processes: FxHashMap<u32, Vec<_>> = FxHashMap::default();
        for event in events.iter().filter(|event| event.tid == 1 && event.pid != 1) {
            processes.entry(event.pid).or_default();
        }
        let mut by_id: FxHashMap<ProcessId, u32> = FxHashMap::default();
        for (process, id) in tables.processes.iter().zip((0..).map(ProcessId)) {
            if processes.contains_key(&process.pid) {
                by_id.insert(id, process.pid);
            }
        }
        for (thread, id) in tables.threads.iter().zip((0..).map(ThreadId)) {
            let list = by_id.get(&thread.process).and_then(|pid| processes.get_mut(pid));
            if let Some(list) = list {
                list.push((thread.start, id));
            }
        }
        // Of a process that ran before, threads that have ended are unknown; merged threads have no starts of their own.
        let is_known = tables.recording.merged_threads.is_empty();
        let mut seen = FxHashSet::default();
        for process in &tables.processes {
            let is_first = seen.insert(process.pid);
            if !is_known || process.existed || !is_first {
                processes.remove(&process.pid);
            }
        }
        for threads in processes.values_mut() {
            threads.sort_unstable();
        }
        Self {
            tables,
            names,
            processes,
        }
    }

    /// The thread with this number in its namespace, if its name agrees.
    pub fn find(&mut self, pid: u32, tid: u32) -> Option<ThreadId> {
        let index = usize::try_from(tid.checked_sub(1)?).ok()?;
        let (_, id) = *self.processes.get(&pid)?.get(index)?;
        let thread = self.tables.threads.get(id.index())?;
        let is_same = || {
            let name = self.names.get(&(pid, tid))?;
            Some(&*thread.name == short(name, KERNEL_NAME))
        };
        (thread.is_main == (tid == 1) && (thread.is_main || is_same() == Some(true))).then_some(id)
    }
}
