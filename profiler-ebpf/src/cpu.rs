//! The time that a thread has been on CPUs, by the switches that were seen.

use profiler_common::scope::ThreadState;

use crate::emit::between;
use crate::kernel::Task;
use crate::maps::{SWITCHED_IN, config};
use crate::scope;

/// When the running thread was switched in on this CPU; 0: it already ran when the programs were attached.
#[inline(always)]
pub fn switched_in() -> u64 {
    SWITCHED_IN.get(0).copied().unwrap_or(0)
}

/// The part of a run from `from` to `time` that counts.
///
/// # Safety
/// `state` must be an entry of the threads.
#[inline(always)]
pub unsafe fn run(state: *const ThreadState, from: u64, time: u64) -> u64 {
    // SAFETY: by this function's own condition.
    let since = unsafe { scope::since(state) };
    between(from.max(since), time.min(scope::end()))
}

/// Adds the kernel's count of the thread's time since the last switch-out that was shown.
///
/// # Safety
/// `state` must be the entry of `task`, which is switched in or out here.
#[inline(always)]
pub unsafe fn add_unseen(state: *mut ThreadState, task: Task) {
    // SAFETY: by this function's own condition.
    unsafe {
        let counted = task.sum_exec_runtime();
        (*state).total += counted.saturating_sub((*state).counted);
        (*state).counted = counted;
    }
}

/// Whether the thread seems to wait, although it runs: its switch-in was not shown.
///
/// # Safety
/// `state` must be the current thread's entry.
#[inline(always)]
pub unsafe fn seems_out(state: *const ThreadState) -> bool {
    // SAFETY: by this function's own condition.
    config!(waits) != 0 && unsafe { (*state).waits.now.out } != 0
}

/// The current thread's time on CPUs since its recording began, as far as its switches were shown.
///
/// # Safety
/// `state` must be the current thread's entry.
#[inline(always)]
pub unsafe fn on_cpu_time(state: *const ThreadState, time: u64) -> u64 {
    let from = switched_in();
    // SAFETY: by this function's own condition.
    unsafe {
        if seems_out(state) {
            return (*state).total;
        }
        (*state).total + run(state, from, time)
    }
}

/// Whether this CPU has seen a switch since the programs were attached.
#[inline(always)]
pub fn is_watched() -> bool {
    switched_in() != 0
}
