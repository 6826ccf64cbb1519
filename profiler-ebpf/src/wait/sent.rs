//! Waits on their way to user space: one that ended, and those that were aggregated.

use profiler_common::Loss;
use profiler_common::scope::ThreadState;

use crate::emit::{self, At, lose};
use crate::scope;

/// Sends the wait that ended, of the thread with this entry.
///
/// # Safety
/// As [`tell_merged`].
#[inline(always)]
pub unsafe fn now(state: *const ThreadState, at: At) {
    // SAFETY: by this function's own condition.
    unsafe { send_wait(state, at.time, at.tid, IS_NOW) };
}

/// Sends the aggregated waits of the thread with this entry, under the thread id of `at`.
///
/// # Safety
/// `state` must be of a thread on this CPU.
#[inline(always)]
pub unsafe fn tell_merged(state: *mut ThreadState, at: At) {
    // SAFETY: by this function's own condition.
    unsafe {
        if (*state).waits.merged.count != 0 {
            send_wait(state, at.time, at.tid, IS_MERGED);
            (*state).waits.merged.count = 0;
        }
    }
}

/// [`send_wait`]: the wait that ended.
const IS_NOW: u32 = 0;
/// [`send_wait`]: those that are aggregated.
const IS_MERGED: u32 = 1;

/// Sends waits of the thread with this entry, under this thread id. The return value has no meaning.
///
/// Exported, so that the verifier checks it once rather than with each path that leads here.
///
/// # Safety
/// `state` must be null or of a thread on this CPU.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn send_wait(state: *const ThreadState, time: u64, tid: u32, which: u32) -> u32 {
    if state.is_null() {
        return 0;
    }
    // SAFETY: by this function's own condition.
    unsafe {
        let at = At {
            tid,
            ..scope::at(state, time)
        };
        let waits = &raw const (*state).waits;
        let sent = if which == IS_NOW {
            emit::wait(at, &raw const (*waits).now, &raw const (*waits).stacks)
        } else {
            emit::wait(at, &raw const (*waits).merged, &raw const (*waits).merged_stacks)
        };
        if !sent {
            lose(Loss::WaitRingFull);
        }
    }
    0
}
