//! Switches that the kernel made without reporting them to the tracepoint (docs/waits.md).

use profiler_common::Loss;
use profiler_common::switch::ThreadWaits;

use crate::emit::{lose, lose_many};
use crate::kernel::Task;

/// Counts the switches that were not seen since the last one that was.
///
/// # Safety
/// `waits` must be those of the thread that is switched out.
#[inline(always)]
pub unsafe fn at_switch_out(waits: *mut ThreadWaits, task: Task) {
    // SAFETY: by this function's own condition.
    unsafe {
        if (*waits).now.out != 0 {
            lose(Loss::SwitchMissed);
        }
        since_last(waits, task);
    }
}

/// As [`at_switch_out`], for a thread that is not recorded any more: its switch-in may not have been looked at for this reason.
///
/// # Safety
/// As [`at_switch_out`].
#[inline(always)]
pub unsafe fn since_last(waits: *mut ThreadWaits, task: Task) {
    // SAFETY: by this function's own condition.
    unsafe {
        let Some(switches) = task.switches() else { return };
        let expected = (*waits).switches + 1;
        if (*waits).seen != 0 && switches > expected {
            // Out and in: if only one of them had been missed, it would have been noticed at the other.
            lose_many(Loss::SwitchMissed, 2 * (switches - expected));
        }
        (*waits).seen = 1;
        (*waits).switches = switches;
    }
}

/// Counts the unseen switch-out of a thread that is switched in.
///
/// # Safety
/// `waits` must be those of the thread.
#[inline(always)]
pub unsafe fn at_switch_in(waits: *mut ThreadWaits) {
    lose(Loss::SwitchMissed);
    // SAFETY: by this function's own condition.
    unsafe { (*waits).switches += 1 };
}
