//! Which thread has a lock of the kernel.

use profiler_common::switch::lock;

use super::number::number_of;
use crate::maps::config;
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
#[derive(Clone, Copy)]
pub struct Owner {
    pub pid: u32,
    pub tid: u32,
    pub is_reader: bool,
}

/// The holder of the lock at an address, whose kind its flags say.
#[inline(always)]
pub fn owner(address: u64, flags: u32) -> Owner {
    let (offset, mask) = if flags & lock::MUTEX != 0 {
        (config!(mutex_owner), MUTEX_FLAGS)
    } else if flags & lock::RT != 0 {
        (config!(rt_mutex_owner), RT_MUTEX_FLAGS)
    } else if flags & lock::PERCPU == 0 && flags & (lock::READ | lock::WRITE) != 0 {
        (config!(rwsem_owner), RWSEM_FLAGS)
    } else {
        return Owner::UNKNOWN; // a percpu-rwsem or a semaphore, which do not know it
    };
    let word: u64 = probe(address, offset).unwrap_or(0);
    let is_rwsem = flags & (lock::MUTEX | lock::RT) == 0;
    let is_reader = is_rwsem && word & READER_OWNED != 0;
    let task = word & !mask;
    if task == 0 {
        return Owner::UNKNOWN;
    }
    let (pid, tid) = numbers(task);
    Owner { pid, tid, is_reader }
}

impl Owner {
    const UNKNOWN: Self = Self {
        pid: 0,
        tid: 0,
        is_reader: false,
    };
}

/// Thread group and thread of the `task_struct` at an address; 0: none, or not in the recorder's pid namespace.
#[inline(always)]
fn numbers(task: u64) -> (u32, u32) {
    if config!(pid_namespace_level) == 0 {
        let number = |offset| probe::<u32>(task, offset).unwrap_or(0);
        return (number(config!(task_tgid)), number(config!(task_pid)));
    }
    let number = |task| number_of(probe(task, config!(task_thread_pid)).unwrap_or(0));
    let leader: u64 = probe(task, config!(task_group_leader)).unwrap_or(0);
    (if leader == 0 { 0 } else { number(leader) }, number(task))
}
