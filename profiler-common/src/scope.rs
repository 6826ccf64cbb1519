//! The recorded threads: the tables that both sides write.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::fault::ThreadFaults;
use crate::switch::ThreadWaits;

/// A thread to be recorded, added by user space by tid, until the eBPF programs first see it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Wanted {
    /// Start of its recording (`CLOCK_MONOTONIC` in ns).
    pub since: u64,
    /// Its address space ([`crate::space::space_id`]).
    pub space: u64,
    /// Its faults before that ([`crate::fault::FaultCounts::before`]).
    pub before: u64,
}

/// Indices of counters: how many threads user space has added, and how many of them the eBPF programs have seen.
pub const WANTED: u32 = 0;
/// As above.
pub const MET: u32 = 1;

/// Indices of times (`CLOCK_MONOTONIC` in ns; 0: not known yet): when the recording begins, and when it ends. User space writes each
/// once, shortly in advance.
pub const BEGINNING: u32 = 0;
/// As above.
pub const END: u32 = 1;
/// Values of [`crate::config::Config::hides`]: the recording of a process ends when it executes a program that its user may not inspect, because it has
/// other rights or an unreadable file. The kernel also ends an ordinary user's perf events then (`begin_new_exec` in fs/exec.c).
pub const HIDES_AT_EXEC: u32 = 1;
/// As above, and also when a process hides itself (`PR_SET_DUMPABLE`).
pub const HIDES_ALWAYS: u32 = 2;

/// The state of a recorded thread in the eBPF programs, by its `task_struct`: an `execve` by another thread than the first swaps the
/// ids of both while both are still running, and reports it only later.
///
/// The thread's CPU time is `total` plus the time since its switch-in. Only the scheduler's program writes `total` and
/// only the sampling program writes `reported`, so one may interrupt the other and the sum stays exact.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct ThreadState {
    /// Start of the thread's recording (`CLOCK_MONOTONIC` in ns).
    pub since: u64,
    /// CPU time up to the last switch-out, in ns.
    pub total: u64,
    /// The part of it that samples have reported, in ns.
    pub reported: u64,
    /// The kernel's own value (`sum_exec_runtime`) at the last switch-out, in ns.
    pub counted: u64,
    /// The thread's id, as last reported.
    pub tid: u32,
    /// Its thread group's id.
    pub pid: u32,
    /// The thread's address space ([`crate::space::space_id`]).
    pub space: u64,
    /// Its page faults.
    pub faults: ThreadFaults,
    /// Its waits.
    pub waits: ThreadWaits,
}

const _: () = assert!(size_of::<ThreadState>() == 48 + 736 + 560);
