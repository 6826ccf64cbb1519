//! Table rows for tests: all fields that a test does not set are empty.

use profiler::addr::Timestamp;
use profiler::fact::{Module, ModuleKind, Process, ProcessId, Thread};

/// When every synthetic recording starts.
pub const START: u64 = 5_000_000_000;

pub fn process(pid: u32, name: &str) -> Process {
    Process::born(pid, name.into(), Timestamp(START))
}

pub fn thread(process: u32, tid: u32, name: &str) -> Thread {
    Thread::born(ProcessId(process), tid, name.into(), Timestamp(START))
}

pub fn module(kind: ModuleKind, name: &str) -> Module {
    Module::named(kind, name)
}
