//! Which lock of the kernel a thread is about to sleep for.
//!
//! The end of contention is not traced: it is reported for spin locks too, which would then cost something. Whether a wait is for
//! the thread's last lock is seen by the functions on its kernel stack instead. A lock counts for the first sleep after it was
//! noted, and for those that follow at the same place: some kinds of locks sleep in a loop.

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::switch::{KernelLock, ThreadWaits, lock};

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
    let is_own_mmap = task.mmap_lock() == Some(address);
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

/// Adds the lock to the thread's wait that begins at `site`, if it may be for it; `sleeps`: it was not preempted. Returns the site
/// with whether the lock was noted since the last sleep: such a sleep has another stack than others at the same place.
///
/// # Safety
/// `waits` must be the current thread's.
#[inline(always)]
pub unsafe fn attribute(waits: *mut ThreadWaits, site: u64, sleeps: bool) -> u64 {
    // SAFETY: by this function's own condition.
    unsafe {
        let now = &raw mut (*waits).now;
        let fresh = (*waits).lock_flags & lock::FRESH;
        if !sleeps || (fresh == 0 && (*waits).lock_site != site) {
            (*now).lock.address = 0;
            (*now).lock_flags = 0;
            return site;
        }
        (*now).lock = (*waits).lock;
        (*now).lock_flags = (*waits).lock_flags;
        (*waits).lock_site = site;
        (*waits).lock_flags &= !(lock::FRESH | lock::HELD_BY_READERS);
        // By the next sleep at this place another thread may hold it.
        ((*waits).lock.holder_pid, (*waits).lock.holder_tid) = (0, 0);
        site ^ u64::from(fresh)
    }
}

/// Forgets the lock of a wait with the stack of an earlier one, which does not prove that it was for a lock, unless the lock was
/// noted since the last sleep.
///
/// # Safety
/// As [`attribute`].
#[inline(always)]
pub unsafe fn forget_old(waits: *mut ThreadWaits) {
    // SAFETY: by this function's own condition.
    unsafe {
        let now = &raw mut (*waits).now;
        if (*now).lock_flags & lock::FRESH == 0 {
            (*now).lock.address = 0;
        }
    }
}
