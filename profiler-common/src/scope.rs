//! Who is recorded: the tables of threads that both sides write.

use crate::fault::ThreadFaults;
use crate::switch::ThreadWaits;

/// A thread that user space wants recorded, by tid, until the kernel side first sees it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Wanted {
    /// It is recorded from here on (`CLOCK_MONOTONIC` in ns).
    pub since: u64,
    /// Its address space ([`crate::space::space_id`]).
    pub space: u64,
    /// Its faults until then ([`crate::fault::FaultCounts::before`]).
    pub before: u64,
}

/// Counters, by place: how many threads user space wanted recorded, and how many of them the kernel side has met.
pub const WANTED: u32 = 0;
/// As above.
pub const MET: u32 = 1;

/// Instants (`CLOCK_MONOTONIC` in ns; 0: not known yet), by place: when the recording begins, and when it ends. User space writes each
/// once, a moment ahead.
pub const BEGINNING: u32 = 0;
/// As above.
pub const END: u32 = 1;
/// Of [`crate::config::Config::hides`]: the recording of a process ends when it starts a program that its user may not look into: one that has other
/// rights, or whose file that user can't read. The kernel ends an ordinary user's perf events then, too (`begin_new_exec` in fs/exec.c).
pub const HIDES_AT_EXEC: u32 = 1;
/// As above, and also when a process hides itself (`PR_SET_DUMPABLE`).
pub const HIDES_ALWAYS: u32 = 2;

/// What the kernel side keeps of a recorded thread, by its `task_struct`: an `execve` by another thread than the first exchanges the
/// numbers of both while both still run, and only tells of it later.
///
/// The thread's on-CPU time is `total` plus the time since its switch-in. Only the scheduler's program writes `total` and
/// only the sampling program writes `reported`, so one may interrupt the other and the sum stays exact.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct ThreadState {
    /// The thread is recorded from here on (`CLOCK_MONOTONIC` in ns).
    pub since: u64,
    /// On-CPU time up to the last switch-out, in ns.
    pub total: u64,
    /// How much of it samples have reported, in ns.
    pub reported: u64,
    /// The kernel's own figure (`sum_exec_runtime`) at the last switch-out, in ns.
    pub counted: u64,
    /// The thread's number, as it was last told.
    pub tid: u32,
    /// Its thread group's number.
    pub pid: u32,
    /// The thread's address space ([`crate::space::space_id`]).
    pub space: u64,
    /// Its page faults.
    pub faults: ThreadFaults,
    /// Its waits.
    pub waits: ThreadWaits,
}

const _: () = assert!(size_of::<ThreadState>() == 48 + 504 + 480);
