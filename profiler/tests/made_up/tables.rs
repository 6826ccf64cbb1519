//! Rows of tables that are made up: what a test does not say of them is nothing.

use profiler::addr::{Svma, Timestamp};
use profiler::event::FileId;
use profiler::fact::{Module, ModuleKind, Process, ProcessId, Thread};

/// When every recording that is made up starts.
pub const START: u64 = 5_000_000_000;

pub fn process(pid: u32, name: &str) -> Process {
    Process::born(pid, name.into(), Timestamp(START))
}

pub fn thread(process: u32, tid: u32, name: &str) -> Thread {
    Thread::born(ProcessId(process), tid, name.into(), Timestamp(START))
}

pub fn module(kind: ModuleKind, name: &str) -> Module {
    Module {
        kind,
        name: name.into(),
        path: String::new(),
        file: FileId::default(),
        build_id: Vec::new(),
        base_svma: Svma(0),
        deleted: false,
        problem: None,
    }
}
