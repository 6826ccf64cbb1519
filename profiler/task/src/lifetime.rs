//! One lifetime of a process or a thread: the kernel reuses their numbers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::addr::Timestamp;
use base::id;

id!(
    /// Index into [`super::Tasks::processes`]: one lifetime of a pid.
    ProcessId
);
id!(
    /// Index into [`super::Tasks::threads`]: one lifetime of a tid.
    ThreadId
);

/// One lifetime of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Thread group id.
    pub pid: u32,
    /// Base name of the program, or the thread's name.
    pub name: String,
    /// Path of the program; empty if it never called exec and its parent's is unknown.
    pub path: String,
    /// Arguments; may be truncated. Shared with its exec fact and with forked processes.
    pub command_line: Arc<Vec<String>>,
    /// Birth, or the recording's start.
    pub start: Timestamp,
    /// Whether it was alive when the recording began.
    pub existed: bool,
    /// Death; `None` if it outlived the recording.
    pub end: Option<Timestamp>,
    /// Wait status at its end.
    pub exit_code: Option<u32>,
    /// The process that created it, if recorded.
    pub parent: Option<ProcessId>,
    /// Its first thread.
    pub main_thread: Option<ThreadId>,
    /// Path of its cgroup (version 2), when it was last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Arc<str>>,
    /// It ended before its cgroup was read, so `cgroup` is that of its parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cgroup_inherited: bool,
}

impl Process {
    /// A process with only its birth known.
    pub fn born(pid: u32, name: String, start: Timestamp) -> Self {
        Self {
            pid,
            name,
            path: String::new(),
            command_line: Arc::default(),
            start,
            existed: false,
            end: None,
            exit_code: None,
            parent: None,
            main_thread: None,
            cgroup: None,
            cgroup_inherited: false,
        }
    }
}

/// One lifetime of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its process.
    pub process: ProcessId,
    /// Thread id.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// Whether it is its process's first thread.
    pub is_main: bool,
    /// The thread that created it, if that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<ThreadId>,
    /// Birth, or the recording's start.
    pub start: Timestamp,
    /// Death; `None` if it outlived the recording.
    pub end: Option<Timestamp>,
    /// On-CPU time after its last sample, in ns.
    pub cpu_time_after_last_sample: u64,
    /// On-CPU time of its whole lifetime as the kernel counts it, in ns.
    pub sum_exec_runtime: Option<u64>,
    /// Minor faults of its whole lifetime, if it ended.
    pub minor_faults: Option<u64>,
    /// Major faults of its whole lifetime, if it ended.
    pub major_faults: Option<u64>,
    /// Outcomes of its faults, if it ended and they were traced.
    pub faults: Option<FaultAccount>,
}

impl Thread {
    /// A thread with only its birth known.
    pub fn born(process: ProcessId, tid: u32, name: String, start: Timestamp) -> Self {
        Self {
            process,
            tid,
            name,
            is_main: false,
            creator: None,
            start,
            end: None,
            cpu_time_after_last_sample: 0,
            sum_exec_runtime: None,
            minor_faults: None,
            major_faults: None,
            faults: None,
        }
    }
}

/// A thread's faults by outcome, for comparison with the kernel's own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FaultAccount {
    /// Recorded faults.
    pub seen: u64,
    /// Lost faults: the ring was full.
    pub lost: u64,
    /// Faults that were not requested (`--faults`).
    pub filtered: u64,
    /// Failed faults, which the kernel does not count.
    pub failed: u64,
    /// The kernel's count before the first traced fault; `None` if none was traced.
    pub before: Option<u64>,
}

impl FaultAccount {
    /// The sum of two threads' accounts.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let before = self.before.zip(other.before);
        Self {
            seen: self.seen.saturating_add(other.seen),
            lost: self.lost.saturating_add(other.lost),
            filtered: self.filtered.saturating_add(other.filtered),
            failed: self.failed.saturating_add(other.failed),
            before: before.map(|(one, another)| one.saturating_add(another)),
        }
    }

    /// Faults that the kernel counted and the tier could not see, given its total `kernel`. Negative: more were
    /// recorded than the kernel counted, which must not happen.
    pub fn not_visible(&self, kernel: u64) -> Option<i64> {
        let watched = i64::try_from(kernel.checked_sub(self.before?)?).ok()?;
        let known = self.seen.checked_add(self.lost)?.checked_add(self.filtered)?;
        watched.checked_sub(i64::try_from(known).ok()?)
    }
}
