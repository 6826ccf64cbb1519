//! Processes and threads of which a profile tells the names alone.

use crate::addr::Timestamp;
use crate::fact::{Process, ProcessId, Thread};

/// A process that was there at that time.
pub fn process(pid: u32, name: &str, start: Timestamp) -> Process {
    Process {
        pid,
        name: name.to_owned(),
        path: String::new(),
        command_line: Vec::new(),
        start,
        existed: true,
        end: None,
        exit_code: None,
        parent: None,
        main_thread: None,
    }
}

/// A thread that was there at that time.
pub fn thread(process: ProcessId, tid: u32, name: &str, start: Timestamp) -> Thread {
    Thread::born(process, tid, name.to_owned(), start)
}
