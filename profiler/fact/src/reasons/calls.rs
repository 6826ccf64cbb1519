//! What system calls wait for, and their names.

use profiler_common::switch::CALL_I386;
use syscalls::{aarch64, x86, x86_64};

use super::CallScene;
use crate::WaitReason;
use base::addr::Avma;

/// `S_IFMT` and types of files (include/uapi/linux/stat.h).
mod mode {
    pub const TYPE: u32 = 0o170_000;
    pub const FIFO: u32 = 0o010_000;
    pub const CHARACTER: u32 = 0o020_000;
    pub const SOCKET: u32 = 0o140_000;
}

/// Operations and flags of futex(2) (include/uapi/linux/futex.h).
mod op {
    pub const MASK: u64 = !(128 | 256);
    pub const LOCK_PI: u64 = 6;
    pub const LOCK_PI2: u64 = 13;
    pub const WAIT: u64 = 0;
    pub const WAIT_BITSET: u64 = 9;
    pub const WAIT_REQUEUE_PI: u64 = 11;
}

/// Value of a locked futex with waiters: `__lll_lock_wait` of glibc, `std::sync::Mutex` of Rust, Go's runtime.
const LOCKED_WITH_WAITERS: u64 = 2;

/// The name of a system call on an architecture named as by `uname -m`; `syscall N` if unknown.
pub fn call_name(arch: &str, number: u32) -> String {
    let (is_i386, number) = (number & CALL_I386 != 0, number & !CALL_I386);
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    let name = match arch {
        "x86_64" if is_i386 => x86::Sysno::new(index).map(|call| call.name()),
        "x86_64" => x86_64::Sysno::new(index).map(|call| call.name()),
        "aarch64" => aarch64::Sysno::new(index).map(|call| call.name()),
        _ => None,
    };
    name.map_or_else(|| format!("syscall {number}"), str::to_owned)
}

/// Lock or condition. Both wait for a word to change; they differ in the operation and in the word's value
/// during the wait.
pub fn futex(call: &CallScene<'_>) -> WaitReason {
    let [_, op, value] = call.arguments;
    // The kernel reads an int: the upper half is arbitrary.
    let [op, value] = [op, value].map(|argument| argument & u64::from(u32::MAX));
    let waits_locked = value == LOCKED_WITH_WAITERS && plain(call.name) == "futex";
    match op & op::MASK {
        op::LOCK_PI | op::LOCK_PI2 => WaitReason::Lock,
        op::WAIT | op::WAIT_BITSET if waits_locked => WaitReason::Lock,
        _ => WaitReason::Condition,
    }
}

/// The futex that a call waits for; `None` if it waits for something else, or for several.
pub fn futex_address(call: &CallScene<'_>) -> Option<Avma> {
    let [address, op, _] = call.arguments;
    let waits = match plain(call.name) {
        "futex_wait" => true,
        "futex" => matches!(
            op & u64::from(u32::MAX) & op::MASK,
            op::WAIT | op::WAIT_BITSET | op::WAIT_REQUEUE_PI | op::LOCK_PI | op::LOCK_PI2
        ),
        _ => false,
    };
    let mask = if call.is_32_bit { u64::from(u32::MAX) } else { u64::MAX };
    waits.then_some(Avma(address & mask))
}

/// The call's name without the suffix for 64-bit times in the i386 table.
fn plain(name: &str) -> &str {
    name.strip_suffix("_time64").unwrap_or(name)
}

/// What a system call waits for apart from I/O, by its name and the type of its descriptor's file.
pub fn reason(call: &CallScene<'_>) -> WaitReason {
    match plain(call.name) {
        "futex" | "futex_wait" | "futex_waitv" => futex(call),
        "sched_yield" => WaitReason::RunQueue,
        "nanosleep" | "clock_nanosleep" => WaitReason::Sleep,
        "wait4" | "waitid" | "waitpid" | "vfork" => WaitReason::Child,
        "poll" | "ppoll" | "select" | "_newselect" | "pselect6" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2"
        | "io_uring_enter" => WaitReason::Poll,
        "io_getevents" | "io_pgetevents" => WaitReason::Disk,
        "pause" | "sigsuspend" | "rt_sigsuspend" | "rt_sigtimedwait" | "semop" | "semtimedop" | "msgrcv" | "msgsnd"
        | "mq_timedreceive" | "mq_timedsend" => WaitReason::Condition,
        "flock" => WaitReason::Lock,
        "recvfrom" | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg" | "sendmmsg" | "accept" | "accept4" | "connect"
        | "socketcall" => WaitReason::Socket,
        "mmap" | "mmap2" | "munmap" | "mprotect" | "pkey_mprotect" | "mremap" | "brk" | "madvise"
        | "process_madvise" | "mlock" | "mlock2" | "mlockall" | "munlock" | "munlockall" | "mincore" => {
            WaitReason::Memory
        }
        "read" | "readv" | "pread64" | "preadv" | "preadv2" | "write" | "writev" | "pwrite64" | "pwritev"
        | "pwritev2" | "splice" | "tee" | "vmsplice" | "sendfile" | "sendfile64" | "copy_file_range" => by_file(call),
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" | "open" | "openat" | "openat2"
        | "creat" | "close" | "stat" | "lstat" | "fstat" | "newfstatat" | "statx" | "access" | "faccessat"
        | "faccessat2" | "readlink" | "readlinkat" | "unlink" | "unlinkat" | "rename" | "renameat" | "renameat2"
        | "mkdir" | "mkdirat" | "rmdir" | "link" | "linkat" | "symlink" | "symlinkat" | "truncate" | "ftruncate"
        | "fallocate" | "getdents" | "getdents64" | "chmod" | "fchmod" | "fchmodat" | "chown" | "fchown"
        | "fchownat" | "utimensat" | "mount" | "umount2" | "fadvise64" | "readahead" | "statfs" | "fstatfs"
        | "stat64" | "lstat64" | "fstat64" | "fstatat64" | "truncate64" | "ftruncate64" | "statfs64" | "fstatfs64"
        | "fadvise64_64" | "getxattr" | "setxattr" | "lgetxattr" | "fgetxattr" | "fsetxattr" | "mknodat" | "chdir"
        | "fchdir" => WaitReason::FileSystem,
        _ => WaitReason::Kernel,
    }
}

/// The reason by the type of the descriptor's file.
fn by_file(call: &CallScene<'_>) -> WaitReason {
    let Some(mode) = call.mode else {
        return WaitReason::Kernel;
    };
    match mode & mode::TYPE {
        // eventfd, signalfd, inotify.
        0 => WaitReason::Condition,
        mode::FIFO => WaitReason::Pipe,
        mode::SOCKET => WaitReason::Socket,
        // Input of a terminal or another device: the thread is idle until there is input.
        mode::CHARACTER if call.name.contains("read") => WaitReason::Poll,
        mode::CHARACTER => WaitReason::Kernel,
        _ => WaitReason::FileSystem,
    }
}
