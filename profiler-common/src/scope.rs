//! Who is recorded: the table of threads that both sides write.

use crate::fault::ThreadFaults;
use crate::switch::ThreadWaits;

/// What the kernel side keeps of a recorded thread, by tid.
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
    /// 1: the thread is in `do_exit`; its next switch-out as a dead task is its end.
    pub exiting: u32,
    /// Explicit padding.
    pub pad: u32,
    /// The thread's address space ([`crate::space::space_id`]).
    pub space: u64,
    /// Its page faults.
    pub faults: ThreadFaults,
    /// Its waits.
    pub waits: ThreadWaits,
}

const _: () = assert!(size_of::<ThreadState>() == 40 + 488 + 456);
