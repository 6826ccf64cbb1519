//! Why a thread waited: derived from its state, the kernel functions on its stack, its system call, and, once
//! named, the functions of the program. Pure; docs/waits.md has the rules.

mod calls;
mod kernel;
mod locks;
mod signals;
mod user;

use profiler_common::switch::{
    WAIT_BIRTH, WAIT_IN_FAULT, WAIT_IO, WAIT_PREEMPTED, WAIT_THROTTLED, WAIT_UNSEEN_START, state,
};

pub use self::calls::{call_name, futex_address};
pub use self::kernel::{Clue, KernelFunction, Rank, in_interrupt, of_kernel};
pub use self::locks::{TakenLock, kernel_lock};
pub use self::signals::is_signal;
pub use self::user::refined;

use super::WaitReason;

/// The inputs for a wait's reason, without its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scene<'a> {
    /// `profiler_common::switch::state` at the switch-out.
    pub state: u32,
    /// `profiler_common::switch::WAIT_*`
    pub flags: u32,
    /// The system call that the thread was in.
    pub call: Option<CallScene<'a>>,
}

/// The inputs from a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallScene<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its first arguments.
    pub arguments: [u64; 3],
    /// `st_mode` of its descriptor's file; 0: neither file nor pipe nor socket. `None` if it has none, or it was not
    /// examined.
    pub mode: Option<u32>,
    /// Whether it is from the table of 32-bit calls.
    pub is_32_bit: bool,
}

/// Why a thread waited. `input` is the result of [`of_kernel`] for its stack.
///
/// The first rule that applies counts:
/// 1. a runnable or newborn thread waits for a CPU, or for the CPU quota of its cgroup;
/// 2. a stopped or traced one waits for the process that stopped it;
/// 3. a kernel function with one single reason decides;
/// 4. `in_iowait`: a disk, but for `io_uring_enter`;
/// 5. within a page fault, or within a function of memory management or of a file system: that;
/// 6. the system call and its descriptor;
/// 7. otherwise something in the kernel, or unknown if its start was not seen.
pub fn reason(scene: &Scene<'_>, input: Option<Clue>) -> WaitReason {
    let is = |flag: u32| scene.flags & flag != 0;
    let call = scene.call.as_ref();
    let unseen = is(WAIT_UNSEEN_START);
    if is(WAIT_PREEMPTED | WAIT_BIRTH) || (scene.state == 0 && !unseen) {
        return if is(WAIT_THROTTLED) {
            WaitReason::Throttled
        } else {
            WaitReason::RunQueue
        };
    }
    if scene.state & (state::STOPPED | state::TRACED) != 0 {
        return WaitReason::Stopped;
    }
    let reason_of = |rank: Rank| input.filter(|input| input.rank == rank).map(|input| input.reason(call));
    if let Some(reason) = reason_of(Rank::Wait) {
        return reason;
    }
    let for_ring = call.is_some_and(|call| call.name == "io_uring_enter");
    if input.is_some_and(|input| input.rank == Rank::Io) || (is(WAIT_IO) && !for_ring) {
        return WaitReason::Disk;
    }
    if let Some(reason) = reason_of(Rank::Place) {
        return reason;
    }
    if is(WAIT_IN_FAULT) {
        return WaitReason::Memory;
    }
    match call.map(calls::reason) {
        Some(reason) => reason,
        None if unseen || (scene.state == 0 && input.is_none()) => WaitReason::Unknown,
        None => WaitReason::Kernel,
    }
}

#[cfg(test)]
mod tests;
