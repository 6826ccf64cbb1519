//! What a thread waited for: from its state, the kernel functions on its stack, the system call that it was in, and, once they are
//! known, the functions of the program. Pure; docs/waits.md has the rules.

mod calls;
mod kernel;
mod user;

use profiler_common::switch::{WAIT_BIRTH, WAIT_IN_FAULT, WAIT_IO, WAIT_PREEMPTED, WAIT_UNSEEN_START, state};

pub use self::calls::call_name;
pub use self::kernel::{Clue, Rank, clue, in_interrupt, of_kernel};
pub use self::user::refined;

use super::WaitReason;

/// A wait as far as it tells its reason, without its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scene<'a> {
    /// `profiler_common::switch::state` at the switch-out.
    pub state: u32,
    /// `profiler_common::switch::WAIT_*`
    pub flags: u32,
    /// The system call that the thread was in.
    pub call: Option<CallScene<'a>>,
}

/// A system call as far as it tells what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallScene<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its first arguments.
    pub arguments: [u64; 3],
    /// `st_mode` of its descriptor's file; 0: neither file nor pipe nor socket. `None`: it has none, or nobody looked.
    pub mode: Option<u32>,
}

/// What the wait was for. `clue` is what the kernel's part of its stack tells ([`of_kernel`]).
///
/// The first rule that applies counts:
/// 1. a thread that could have run, or that was just born, waits for a CPU;
/// 2. one that was stopped or is traced, for who stopped it;
/// 3. a kernel function that waits for one thing only says so;
/// 4. `in_iowait`: a disk, but for `io_uring_enter`;
/// 5. within a page fault, or within a function of memory management or of a file system: for that;
/// 6. the system call and its descriptor;
/// 7. otherwise something in the kernel, unless nobody saw it begin.
pub fn reason(scene: &Scene<'_>, clue: Option<Clue>) -> WaitReason {
    let is = |flag: u32| scene.flags & flag != 0;
    let call = scene.call.as_ref();
    let unseen = is(WAIT_UNSEEN_START);
    if is(WAIT_PREEMPTED | WAIT_BIRTH) || (scene.state == 0 && !unseen) {
        return WaitReason::RunQueue;
    }
    if scene.state & (state::STOPPED | state::TRACED) != 0 {
        return WaitReason::Stopped;
    }
    let told = |rank: Rank| clue.filter(|clue| clue.rank == rank).map(|clue| clue.reason(call));
    if let Some(reason) = told(Rank::Wait) {
        return reason;
    }
    let for_ring = call.is_some_and(|call| call.name == "io_uring_enter");
    if clue.is_some_and(|clue| clue.rank == Rank::Io) || (is(WAIT_IO) && !for_ring) {
        return WaitReason::Disk;
    }
    if let Some(reason) = told(Rank::Place) {
        return reason;
    }
    if is(WAIT_IN_FAULT) {
        return WaitReason::Memory;
    }
    match call.map(calls::reason) {
        Some(reason) => reason,
        None if unseen || (scene.state == 0 && clue.is_none()) => WaitReason::Unknown,
        None => WaitReason::Kernel,
    }
}

#[cfg(test)]
mod tests;
