//! Which lock of the kernel a thread is about to sleep for.
//!
//! The end of contention is not traced: it is reported for spin locks too, which would then cost something. Whether a wait is for
//! the thread's last lock is seen by the functions on its kernel stack instead. A lock counts for the first sleep after it was
//! noted, and for those that follow at the same place: some kinds of locks sleep in a loop.

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::switch::{KernelLock, ThreadWaits, WAIT_LIKE_EARLIER, lock};

use crate::kernel::{self, Owner, Task};
use crate::maps::THREADS;
use crate::preempt::Held;

/// `contention_begin(void *lock, unsigned int flags)`, in the waiting thread (5.19 and later).
#[btf_tracepoint(function = "contention_begin")]
pub fn contention_begin(ctx: BtfTracePointContext) -> i32 {
    let flags = ctx.arg::<u64>(1) as u32;
    if flags & lock::SPIN != 0 {
        return 0;
    }
    let task = Task::current();
    let Some(state) = THREADS.get_ptr_mut(&task.address()) else {
        return 0;
    };
    let _held = Held::new();
    let address = ctx.arg::<u64>(0);
    let Owner { pid, tid, is_reader } = kernel::owner(address, flags);
    let is_own_mmap = task.mm().and_then(|mm| mm.mmap_lock()) == Some(address);
    // SAFETY: the entry of the current thread, whose switches alone read these fields.
    unsafe {
        let waits = &raw mut (*state).waits;
        (*waits).lock = KernelLock {
            address,
            holder_pid: pid,
            holder_tid: tid,
        };
        (*waits).lock_flags = flags
            | lock::FRESH
            | if is_own_mmap { lock::OWN_MMAP } else { 0 }
            | if is_reader { lock::HELD_BY_READERS } else { 0 };
    }
    0
}

/// Whether the thread is about to sleep for a lock that was noted since its last sleep.
///
/// # Safety
/// `waits` must be the current thread's.
#[inline(always)]
pub unsafe fn is_fresh(waits: *const ThreadWaits) -> bool {
    // SAFETY: by this function's own condition.
    unsafe { (*waits).lock_flags & lock::FRESH != 0 }
}

/// Adds the lock to the thread's wait that begins at `site`, if it may be for it; `sleeps`: it was not preempted.
///
/// # Safety
/// As [`is_fresh`].
#[inline(always)]
pub unsafe fn attribute(waits: *mut ThreadWaits, site: u64, sleeps: bool) {
    // SAFETY: by this function's own condition.
    unsafe {
        let now = &raw mut (*waits).now;
        let is_same = (*waits).lock_site == site && (*now).flags & WAIT_LIKE_EARLIER == 0;
        if !sleeps || !(is_fresh(waits) || is_same) {
            (*now).lock.address = 0;
            (*now).lock_flags = 0;
            return;
        }
        (*now).lock = (*waits).lock;
        (*now).lock_flags = (*waits).lock_flags & !lock::FRESH;
        (*waits).lock_site = site;
        (*waits).lock_flags &= !(lock::FRESH | lock::HELD_BY_READERS);
        // By the next sleep at this place another thread may hold it.
        ((*waits).lock.holder_pid, (*waits).lock.holder_tid) = (0, 0);
    }
}
