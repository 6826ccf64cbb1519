//! Table rows for tests: all fields that a test does not set are empty.

use super::fault::{Access, FaultClass, FaultWaits, OtherFaults};
use super::request::{Operation, RequestCoverage, RequestKind};
use super::{DeviceId, FaultFact, Process, ProcessId, RequestFact, Thread, ThreadId};
use base::addr::{Avma, Timestamp};

/// A process that existed at time 0.
pub fn process(pid: u32, name: &str) -> Process {
    Process::born(pid, name.into(), Timestamp(0))
}

/// A thread of the process with this number, of the same age.
pub fn thread(process: u32, tid: u32) -> Thread {
    Thread::born(ProcessId(process), tid, String::new(), Timestamp(0))
}

/// A read of nothing from the first device, observed completely.
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
        coverage: RequestCoverage::Full,
        bio_only: false,
        bios: Vec::new(),
    }
}

/// A read of anonymous memory at address 0 without an observed end.
pub fn fault() -> FaultFact {
    FaultFact {
        start: Timestamp(0),
        latency: None,
        thread: ThreadId(0),
        stack: None,
        address: Avma(0),
        access: Access::Read,
        class: FaultClass::Anonymous,
        place: None,
        major: false,
        in_kernel: false,
        remote: false,
        failed: None,
        waits: FaultWaits::default(),
        retries: None,
        mapped: None,
        pages_read: 0,
        read_around_off: false,
        others: OtherFaults::default(),
    }
}
