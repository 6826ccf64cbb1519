//! Refines futex waits once the program's functions have names: the same word and value may be a lock or a condition.

use crate::{Location, StackId, Tables, WaitReason};

/// Number of innermost user functions to examine: the wrappers of the C library and the runtime.
const DEPTH: usize = 12;

/// Parts of the names of functions that only wait for a lock.
const LOCKS: [&str; 16] = [
    "lll_lock_wait",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_timed",
    "Mutex::lock_contended",
    "Mutex>::lock_contended",
    "RwLock::read_contended",
    "RwLock::write_contended",
    "RawMutex::lock_slow",
    "RawRwLock::lock_",
    "runtime.lock2",
    "WordLock::lock_slow",
    "MutexImpl::mutexLock",
];

/// The same for conditions; `pthread_cond_wait` takes its mutex again, which is a lock further in.
const CONDITIONS: [&str; 14] = [
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "pthread_join",
    "pthread_barrier_wait",
    "Condvar::wait",
    "Condvar>::wait",
    "Parker::park",
    "Parker>::park",
    "runtime.notesleep",
    "runtime.notetsleep",
];

/// The reason of a wait, refined by the names of its stack's innermost functions if it is a futex.
pub fn refined(tables: &Tables, stack: Option<StackId>, reason: WaitReason) -> WaitReason {
    if !matches!(reason, WaitReason::Lock | WaitReason::Condition) {
        return reason;
    }
    let mut next = stack;
    let mut left = DEPTH;
    while let Some((at, node)) = next.and_then(|at| Some((at, tables.stacks.get(at.index())?))) {
        // A parent precedes its children: anything else is not a parent.
        next = node.parent.filter(|parent| *parent < at);
        let frame = tables.frames.get(node.frame.index());
        if frame.is_none_or(|frame| matches!(frame.location, Location::Kernel { .. })) {
            continue;
        }
        if left == 0 {
            break;
        }
        left -= 1;
        let Some(name) = tables.names.get(&node.frame) else {
            continue;
        };
        let inlined = name.inline_chain.iter().map(|function| &*function.function);
        for function in inlined.chain([&*name.symbol]) {
            let has = |parts: &[&str]| parts.iter().any(|part| function.contains(part));
            if has(&LOCKS) {
                return WaitReason::Lock;
            }
            if has(&CONDITIONS) {
                return WaitReason::Condition;
            }
        }
    }
    reason
}
