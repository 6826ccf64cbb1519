//! Rows of tables for tests: what a test does not say of them is nothing.

use super::request::{Operation, RequestKind, RequestSight};
use super::{DeviceId, Process, ProcessId, RequestFact, Thread};
use crate::addr::Timestamp;

/// A process that was there at the beginning of time.
pub fn process(pid: u32, name: &str) -> Process {
    Process::born(pid, name.into(), Timestamp(0))
}

/// A thread of the process with this number, of the same age.
pub fn thread(process: u32, tid: u32) -> Thread {
    Thread::born(ProcessId(process), tid, String::new(), Timestamp(0))
}

/// A read of nothing from the first device, seen from begin to end.
pub fn request() -> RequestFact {
    RequestFact {
        start: Timestamp(0),
        end: Timestamp(0),
        device: DeviceId(0),
        sector: 0,
        bytes: 0,
        operation: Operation::Read,
        kind: RequestKind::default(),
        queued: None,
        service: None,
        scheduled: false,
        depth: 0,
        error: 0,
        requeues: 0,
        sight: RequestSight::Whole,
        bio_only: false,
        bios: Vec::new(),
    }
}
