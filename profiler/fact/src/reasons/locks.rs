//! Which lock of the kernel a thread waited for, as far as the functions on its stack say.

use super::kernel::{fits, plain};
use crate::LockKind;

/// A lock of the kernel, by the functions on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TakenLock<'f> {
    /// Its kind.
    pub kind: LockKind,
    /// The innermost function outside of the lock's own, as the kernel's symbol table has it.
    pub taker: &'f str,
}

/// Functions of locks by kind (`kernel/locking/*.c`), separated by spaces; a trailing `*` matches any suffix.
const LOCKS: [(LockKind, &str); 6] = [
    (
        LockKind::Mutex,
        "__mutex_lock* mutex_lock* ww_mutex_lock* __ww_mutex_lock*",
    ),
    (
        LockKind::Rwsem,
        "rwsem_down_* down_read down_read_* down_write down_write_* __down_read* __down_write*",
    ),
    (
        LockKind::PercpuRwsem,
        "percpu_rwsem_wait __percpu_down_read percpu_down_read percpu_down_write",
    ),
    (
        LockKind::Semaphore,
        "down down_interruptible down_killable down_timeout __down __down_interruptible __down_killable \
         __down_timeout __down_common ___down_common",
    ),
    (
        LockKind::RtMutex,
        "rt_mutex_lock* __rt_mutex_lock* rt_mutex_slowlock* __rt_mutex_slowlock* rt_mutex_schedule \
         rt_mutex_slowlock_block",
    ),
    (LockKind::BitLock, "__wait_on_bit_lock out_of_line_wait_on_bit_lock"),
];

/// The scheduler, and the programs on its tracepoints, which are further in on each stack.
const SCHEDULER: &str = "__schedule* schedule schedule_preempt_disabled schedule_rtmutex schedule_timeout* io_schedule* \
     __traceiter_* bpf_* __bpf_* trace_* bit_wait bit_wait_io";

/// The kernel's lock that a stack waits for, innermost function first; `None` if the innermost function outside of the
/// scheduler is not a lock's, or the functions have no names.
pub fn kernel_lock<'f>(functions: impl IntoIterator<Item = &'f str>) -> Option<TakenLock<'f>> {
    let is = |names: &str, name: &str| names.split(' ').any(|pattern| fits(pattern, plain(name)));
    let mut functions = functions.into_iter().skip_while(|name| is(SCHEDULER, name));
    let first = functions.next()?;
    let (kind, _) = LOCKS.iter().find(|(_, names)| is(names, first))?;
    // A mutex of a real-time kernel consists of another lock: the outermost one is what the taker called.
    let mut kind = *kind;
    let taker = functions.find(|name| {
        let further = LOCKS.iter().find(|(_, names)| is(names, name));
        kind = further.map_or(kind, |(kind, _)| *kind);
        further.is_none()
    });
    taker.filter(|name| !name.is_empty()).map(|taker| TakenLock {
        kind,
        taker: plain(taker),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions are those of `/proc/PID/stack`, with what a tracepoint's stack has in front.
    #[test]
    fn the_taker_is_outside_of_the_lock() {
        let lock = |stack: &'static str| kernel_lock(stack.split(" < ")).map(|lock| (lock.kind.name(), lock.taker));
        let cases = [
            (
                "__schedule < schedule < schedule_preempt_disabled < __mutex_lock.constprop.0 < __mutex_lock_slowpath < \
                 mutex_lock < pipe_write < vfs_write",
                Some(("mutex", "pipe_write")),
            ),
            (
                "__traceiter_sched_switch < __schedule < schedule < schedule_preempt_disabled < \
                 rwsem_down_write_slowpath < down_write < path_openat < do_filp_open",
                Some(("rwsem", "path_openat")),
            ),
            (
                "schedule < rwsem_down_read_slowpath < down_read_killable < lock_mm_and_find_vma < do_user_addr_fault",
                Some(("rwsem", "lock_mm_and_find_vma")),
            ),
            (
                "schedule < rt_mutex_schedule < rt_mutex_slowlock_block < __rt_mutex_slowlock_locked.constprop.0 < \
                 mutex_lock < ext4_readdir [ext4] < iterate_dir",
                Some(("mutex", "ext4_readdir")),
            ),
            ("schedule < futex_do_wait < __futex_wait < futex_wait < do_futex", None),
            // It had the mutex, and waited for something else.
            ("schedule < io_schedule < folio_wait_bit_common < mutex_lock < x", None),
            ("schedule < mutex_lock", None),
            ("", None),
        ];
        for (stack, expected) in cases {
            assert_eq!(lock(stack), expected, "{stack}");
        }
    }
}
