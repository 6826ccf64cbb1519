//! Rows of tables for tests: what a test does not say of them is nothing.

use super::{Process, ProcessId, Thread};
use crate::addr::Timestamp;

/// A process that was there at the beginning of time.
pub fn process(pid: u32, name: &str) -> Process {
    Process {
        pid,
        name: name.into(),
        path: String::new(),
        command_line: Vec::new(),
        start: Timestamp(0),
        existed: false,
        end: None,
        exit_code: None,
        parent: None,
        main_thread: None,
    }
}

/// A thread of the process with this number, of the same age.
pub fn thread(process: u32, tid: u32) -> Thread {
    Thread {
        process: ProcessId(process),
        tid,
        name: String::new(),
        is_main: false,
        start: Timestamp(0),
        end: None,
        cpu_time_after_last_sample: 0,
        sum_exec_runtime: None,
        minor_faults: None,
        major_faults: None,
        faults: None,
    }
}
