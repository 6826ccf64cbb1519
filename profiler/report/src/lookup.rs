//! What every report looks up in the tables of a recording, and the line above each report.

use super::grid::GroupName;
use super::text::{WIDTH, columns, count, fit};
use base::addr::{Timestamp, ns};
use fact::{Location, Process, ProcessId, Recording, StackId, Tables, Thread, ThreadId, upwards};

/// Access to the items that an event refers to.
pub trait Lookup {
    /// The thread with this ID.
    fn thread(&self, id: ThreadId) -> Option<&Thread>;
    /// The process of a thread.
    fn process(&self, id: ThreadId) -> Option<&Process>;
    /// Time since the start of the recording, in ns.
    fn time_ns(&self, time: Timestamp) -> u64;
    /// Whether a stack reaches its thread's first frame; `None` if there is no stack.
    fn is_complete(&self, stack: Option<StackId>) -> Option<bool>;
}

impl Lookup for Tables {
    fn thread(&self, id: ThreadId) -> Option<&Thread> {
        self.threads.get(id.index())
    }

    fn process(&self, id: ThreadId) -> Option<&Process> {
        self.processes.get(self.thread(id)?.process.index())
    }

    fn time_ns(&self, time: Timestamp) -> u64 {
        ns(time.since(self.recording.start))
    }

    fn is_complete(&self, stack: Option<StackId>) -> Option<bool> {
        let outermost = upwards(self, stack?).last()?;
        let frame = self.frames.get(outermost.index())?;
        Some(!matches!(frame.location, Location::Truncated(_)))
    }
}

/// Names the row of a process; it has no name and the ID 0 if it is unknown.
pub(crate) fn process_name(tables: &Tables, id: Option<ProcessId>) -> GroupName {
    let process = id.and_then(|id| tables.processes.get(id.index()));
    let pid = process.map_or(0, |process| process.pid);
    let name = process.map_or_else(String::new, |process| process.name.clone());
    GroupName::new(name.clone())
        .with_id(pid)
        .field("pid", pid)
        .field("process", name)
}

/// Names the row of a thread; it has no name and the ID 0 if it is unknown. `process` is the name of its process, if the row has it.
pub(crate) fn thread_name(tables: &Tables, id: ThreadId, process: Option<String>) -> GroupName {
    let (thread, pid) = (tables.thread(id), tables.process(id).map_or(0, |process| process.pid));
    let tid = thread.map_or(0, |thread| thread.tid);
    let name = thread.map_or_else(String::new, |thread| thread.name.clone());
    let mut shown = GroupName::new(name.clone())
        .with_id(tid)
        .field("pid", pid)
        .field("tid", tid);
    if let Some(process) = process {
        shown = shown.field("process", process);
    }
    shown.field("thread", name)
}

/// The command of a recording, followed by `more`, in one line.
pub(crate) fn headline(recording: &Recording, more: &str) -> String {
    let command = recording.command.join(" ");
    let command = if command.is_empty() { &recording.scope } else { &command };
    fit(command, WIDTH.saturating_sub(columns(more))) + more
}

/// The number of selected events: `3`, or `3 of 10`.
pub(crate) fn selected_of(selected: u64, all: u64) -> String {
    if selected == all {
        return count(selected);
    }
    format!("{} of {}", count(selected), count(all))
}
