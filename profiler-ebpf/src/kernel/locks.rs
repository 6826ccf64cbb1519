//! Which thread has a lock of the kernel.

use profiler_common::switch::lock;

use crate::maps::{THREADS, config};
use crate::read::probe;

/// `MUTEX_FLAGS` of kernel/locking/mutex.h
const MUTEX_FLAGS: u64 = 7;
/// `RWSEM_READER_OWNED` of kernel/locking/rwsem.c: the owner is the reader that came last, and may have gone.
const READER_OWNED: u64 = 1;
/// `RWSEM_OWNER_FLAGS_MASK`
const RWSEM_FLAGS: u64 = 3;
/// `RT_MUTEX_HAS_WAITERS` of `kernel/locking/rtmutex_common.h`
const RT_MUTEX_FLAGS: u64 = 1;

/// The holder of a lock; 0: unknown.
#[derive(Clone, Copy, Default)]
pub struct Owner {
    pub pid: u32,
    pub tid: u32,
    /// Readers hold it.
    pub is_reader: bool,
}

/// The holder of the lock at an address, of the kind given by its flags, if it is a recorded thread.
///
/// The owner's address is only looked up among the recorded threads, never followed: that of a reader may be stale.
#[inline(always)]
pub fn owner(address: u64, flags: u32) -> Owner {
    let (offset, mask) = match flags & (lock::MUTEX | lock::RT | lock::PERCPU | lock::READ | lock::WRITE) {
        kind if kind & lock::MUTEX != 0 => (config!(mutex_owner), MUTEX_FLAGS),
        lock::RT => (config!(rt_mutex_owner), RT_MUTEX_FLAGS),
        lock::READ | lock::WRITE => (config!(rwsem_owner), RWSEM_FLAGS),
        // A percpu-rwsem, a semaphore, or an rwsem of a real-time kernel, whose owner is elsewhere.
        _ => return Owner::default(),
    };
    let word: u64 = probe(address, offset).unwrap_or(0);
    if flags & (lock::MUTEX | lock::RT) == 0 && word & READER_OWNED != 0 {
        return Owner {
            is_reader: true,
            ..Owner::default()
        };
    }
    let Some(holder) = THREADS.get_ptr(&(word & !mask)) else {
        return Owner::default();
    };
    // SAFETY: an entry of the map, whose ids do not change.
    let (pid, tid) = unsafe { ((*holder).pid, (*holder).tid) };
    Owner {
        pid,
        tid,
        is_reader: false,
    }
}
