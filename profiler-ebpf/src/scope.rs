//! Who is recorded: the threads in [`THREADS`], or every task but the recorder's own.

use profiler_common::Loss;
use profiler_common::fault::BEFORE_UNKNOWN;
use profiler_common::scope::ThreadState;
use profiler_common::space::{first_space_id, space_id};

use crate::emit::{lose, now};
use crate::maps::{SPACES, THREADS, config};

/// The thread's state if it is recorded. With `-a` the state is made when the thread is first seen.
#[inline(always)]
pub fn thread(pid: u32, tid: u32) -> Option<*mut ThreadState> {
    if tid == 0 {
        return None; // the idle task
    }
    let known = THREADS.get_ptr_mut(&tid);
    if known.is_some() || config!(whole_system) == 0 || is_excluded(pid) {
        return known;
    }
    enter(tid, first_space_id(pid), BEFORE_UNKNOWN, now());
    THREADS.get_ptr_mut(&tid)
}

/// Records a thread of the address space `space` from `since` on, which had `before` faults
/// ([`profiler_common::fault::FaultCounts::before`]).
#[inline(always)]
pub fn enter(tid: u32, space: u64, before: u64, since: u64) {
    // It is too large for a program's stack, so it starts as zeroes, which nobody asks for yet.
    if THREADS.insert(&tid, &BLANK, 0).is_err() {
        lose(Loss::ThreadTableFull);
    }
    if let Some(state) = THREADS.get_ptr_mut(&tid) {
        // SAFETY: the entry was made above.
        unsafe {
            (*state).space = space;
            (*state).faults.counts.before = before;
            (*state).since = since;
        }
    }
}

/// A thread of which nothing is known.
static BLANK: ThreadState = ThreadState {
    since: 0,
    total: 0,
    reported: 0,
    exiting: 0,
    pad: 0,
    space: 0,
    // SAFETY: numbers only.
    faults: unsafe { core::mem::zeroed() },
    // SAFETY: as above.
    waits: unsafe { core::mem::zeroed() },
};

/// A new thread is recorded if its creator is.
#[inline(always)]
pub fn inherits(creator_tid: u32, pid: u32) -> bool {
    if config!(whole_system) != 0 {
        !is_excluded(pid)
    } else {
        THREADS.get_ptr(&creator_tid).is_some()
    }
}

/// The address space of a child: its creator's own one, or a new one with the same mappings.
#[inline(always)]
pub fn space_of_child(creator_pid: u32, creator_tid: u32, child_pid: u32, shares: bool) -> u64 {
    let creators = match THREADS.get_ptr(&creator_tid) {
        // SAFETY: the creator is the current thread, so its entry stays.
        Some(creator) => unsafe { (*creator).space },
        None => first_space_id(creator_pid),
    };
    if shares {
        return creators;
    }
    let space = space_id(child_pid, now());
    // SAFETY: the run is one word.
    if let Some(run) = unsafe { SPACES.get(&creators) }
        && SPACES.insert(&space, run, 0).is_err()
    {
        lose(Loss::SpaceTableFull);
    }
    space
}

/// A thread's end.
#[inline(always)]
pub fn leave(tid: u32) {
    let _ = THREADS.remove(&tid); // absent is as good as removed
}

/// A thread other than the first called execve and is now numbered as the first.
#[inline(always)]
pub fn renumber(old_tid: u32, tid: u32) {
    if let Some(old) = THREADS.get_ptr(&old_tid) {
        // SAFETY: the thread is the current one, so nobody removes its entry meanwhile.
        if THREADS.insert(&tid, unsafe { &*old }, 0).is_err() {
            lose(Loss::ThreadTableFull);
        }
        leave(old_tid);
    }
}

#[inline(always)]
fn is_excluded(pid: u32) -> bool {
    let excluded = config!(exclude_pid);
    excluded[0] == pid || excluded[1] == pid || excluded[2] == pid
}
