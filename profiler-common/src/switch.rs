//! switch: off-CPU times of threads, from switch-out to switch-in.
//!
//! One record is one wait, sent when the thread runs again; if waits occur too fast to be recorded individually at an acceptable cost, one
//! record represents several of them, with their sums.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::RecordHeader;
use crate::stack::{MAX_KERNEL_FRAMES, Stacks, UserRegs};

/// It was runnable: another thread took the CPU.
pub const WAIT_PREEMPTED: u32 = 1;
/// For I/O (`in_iowait`).
pub const WAIT_IO: u32 = 2;
/// Within a page fault.
pub const WAIT_IN_FAULT: u32 = 4;
/// Within the system call [`WaitBody::call`].
pub const WAIT_IN_CALL: u32 = 8;
/// The waker is known.
pub const WAIT_WOKEN: u32 = 16;
/// An interrupt woke it, while the thread that is named as the waker was running.
pub const WAIT_BY_INTERRUPT: u32 = 32;
/// Its stack is that of an earlier wait with the same registers: waits occurred too fast to walk each stack.
pub const WAIT_LIKE_EARLIER: u32 = 64;
/// The thread starts with this wait, for its first CPU.
pub const WAIT_BIRTH: u32 = 128;
/// It was in progress when the recording of the thread began: its stack is unknown.
pub const WAIT_UNSEEN_START: u32 = 256;
/// It was in progress when the recording ended.
pub const WAIT_UNFINISHED: u32 = 512;
/// [`WaitBody::file`] is the file of the system call's descriptor.
pub const WAIT_HAS_FILE: u32 = 1024;
/// It is unknown whether an interrupt woke it.
pub const WAIT_WAKER_UNSURE: u32 = 2048;
/// Its cgroup had used up its CPU quota (`cpu.max`): at the switch-out with [`WAIT_PREEMPTED`], else at the wakeup.
pub const WAIT_THROTTLED: u32 = 4096;

/// Flags of a wait for a lock of the kernel: those of the tracepoint `contention_begin` (include/trace/events/lock.h), and ours.
pub mod lock {
    /// The thread spins: it does not sleep.
    pub const SPIN: u32 = 1;
    /// Shared with other readers.
    pub const READ: u32 = 1 << 1;
    /// Exclusive.
    pub const WRITE: u32 = 1 << 2;
    /// An rt-mutex, or a lock that consists of one in a real-time kernel.
    pub const RT: u32 = 1 << 3;
    /// A percpu-rwsem.
    pub const PERCPU: u32 = 1 << 4;
    /// A mutex.
    pub const MUTEX: u32 = 1 << 5;
    /// The lock of the waiting thread's own address space (`mmap_lock`).
    pub const OWN_MMAP: u32 = 1 << 16;
    /// Readers hold it: which ones is unknown.
    pub const HELD_BY_READERS: u32 = 1 << 17;
    /// In the eBPF programs only: the thread has not slept since.
    pub const FRESH: u32 = 1 << 18;
}

/// [`WaitBody::priority`] of a thread whose priority the kernel does not show.
pub const NO_PRIORITY: i32 = i32::MIN;

/// Flag in the number of a system call: it is from the i386 table, as called by 32-bit programs, and by 64-bit ones with `int 0x80`.
pub const CALL_I386: u32 = 1 << 31;

/// States of a task (`include/linux/sched.h`), as far as they distinguish waits.
pub mod state {
    /// A signal may end the wait.
    pub const INTERRUPTIBLE: u32 = 1;
    /// Only the awaited event ends the wait.
    pub const UNINTERRUPTIBLE: u32 = 2;
    /// Stopped by a signal.
    pub const STOPPED: u32 = 4;
    /// Stopped by a tracer.
    pub const TRACED: u32 = 8;
    /// A fatal signal also ends the wait.
    pub const WAKEKILL: u32 = 0x100;
    /// An idle kernel thread.
    pub const NOLOAD: u32 = 0x400;
}

/// The file of a descriptor.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct OpenFile {
    /// Inode.
    pub inode: u64,
    /// Device in the kernel's encoding: major << 20 | minor.
    pub device: u32,
    /// `inode->i_generation`
    pub generation: u32,
    /// `inode->i_mode`: its type distinguishes files, pipes and sockets; 0: none of them (epoll, eventfd, ...).
    pub mode: u32,
    /// Magic number of the file system.
    pub magic: u32,
    /// Key of the file under its name at that time, as in [`FileNameHead`]; 0: it has none.
    pub name: u64,
}

/// [`Waker::tid`] of a thread that is not in the recorder's pid namespace.
pub const OUTSIDE: u32 = u32::MAX;

/// The waker of a thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Waker {
    /// Time of the wakeup (`CLOCK_MONOTONIC` in ns).
    pub time: u64,
    /// Key of its user stack; 0: not walked.
    pub user: u64,
    /// Key of its kernel stack; 0: not recorded.
    pub kernel: u64,
    /// Thread group.
    pub pid: u32,
    /// Thread; 0: the idle task; [`OUTSIDE`].
    pub tid: u32,
}

/// A lock of the kernel that a thread was last about to sleep for.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct KernelLock {
    /// Its address; 0: none.
    pub address: u64,
    /// Thread group of the holder at that time.
    pub holder_pid: u32,
    /// The holder; 0: unknown.
    pub holder_tid: u32,
}

/// The content of a wait's record, in addition to thread, stack and end.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct WaitBody {
    /// When the thread was switched out; for several waits, the first time.
    pub out: u64,
    /// When it ran again; for several waits, the last time.
    pub end: u64,
    /// Off-CPU time in ns: for one wait, from `out` to `end`; for several, the sum.
    pub off: u64,
    /// The part of `off` in which the thread was runnable, waiting for a CPU.
    pub queued: u64,
    /// The longest of several waits, in ns.
    pub longest: u64,
    /// The waker, with [`WAIT_WOKEN`]; of several waits, the last one's.
    pub waker: Waker,
    /// The file of the call's descriptor, with [`WAIT_HAS_FILE`].
    pub file: OpenFile,
    /// First arguments of the system call.
    pub arguments: [u64; 3],
    /// Number of the system call, with [`WAIT_IN_CALL`].
    pub call: u32,
    /// Number of waits in the record.
    pub count: u32,
    /// [`state`]s at switch-out.
    pub state: u32,
    /// `WAIT_*`
    pub flags: u32,
    /// The last lock that the thread was about to sleep for: this wait is for it only if its kernel stack says so.
    pub lock: KernelLock,
    /// [`lock`] flags of it.
    pub lock_flags: u32,
    /// `task_struct.prio` at switch-out, or at switch-in where the wait's start was not seen: lower numbers run first; [`NO_PRIORITY`].
    pub priority: i32,
}

/// A wait's record. The header's time is the switch-in, or, for several waits, the time of the report.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Wait {
    /// Kind [`crate::RecordKind::Wait`].
    pub header: RecordHeader,
    /// The wait.
    pub body: WaitBody,
    /// Stack of the thread at the switch-out. The part that the walk did not reach is not copied here, but in an earlier
    /// [`StackAheadHead`] of the same thread with the time `body.out`.
    pub stacks: Stacks,
}

/// Start of the record of a stack that a later record of the same thread refers to by this record's time; the copy of the stack follows.
///
/// A wait's own record is written when another thread's memory is mapped, and the submitter of a request may be gone when it completes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct StackAheadHead {
    /// Kind [`crate::RecordKind::StackAhead`].
    pub header: RecordHeader,
    /// Stack of the thread.
    pub stacks: Stacks,
}

/// Maximum length of a path in a record, in bytes.
pub const PATH_LEN: usize = 256;

/// The path argument of the system call of a coming wait (`open` and similar ones).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct CallPath {
    /// Kind [`crate::RecordKind::CallPath`]; the time is the wait's `out`.
    pub header: RecordHeader,
    /// Number of valid bytes of `path`.
    pub len: u32,
    /// Explicit padding.
    pub pad: u32,
    /// As the program passed it.
    pub path: [u8; PATH_LEN],
}

/// Bit in [`ThreadWaits::seen`].
pub const ENDED_LATER: u32 = 2;

/// The waits of a thread, as stored by the eBPF programs.
///
/// Wakers on other CPUs write `waker` and `waker_flags`; everything else belongs to the CPU that switches the thread out or in.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct ThreadWaits {
    /// The current wait, or the last one: `out` is 0 while the thread runs.
    pub now: WaitBody,
    /// Its stack.
    pub stacks: Stacks,
    /// Short waits that were not sent yet: `count` is 0 if there are none.
    pub merged: WaitBody,
    /// Their stack.
    pub merged_stacks: Stacks,
    /// The last waker.
    pub waker: Waker,
    /// `WAIT_BY_INTERRUPT`, `WAIT_WAKER_UNSURE` and `WAIT_THROTTLED` for that waker.
    pub waker_flags: u32,
    /// 1: a switch of the thread was recorded. [`ENDED_LATER`]: it ended after the recording.
    pub seen: u32,
    /// Remaining budget of stacks to walk.
    pub tokens: u32,
    /// Remaining bytes of the stack to copy.
    pub want: u32,
    /// Where the thread last began to wait for a lock of the kernel.
    pub lock: KernelLock,
    /// [`lock`] flags of it.
    pub lock_flags: u32,
    /// Explicit padding.
    pub pad: u32,
    /// Where the thread last slept for that lock.
    pub lock_site: u64,
    /// When tokens were last added.
    pub refilled: u64,
    /// The kernel's count of the thread's switches that were recorded or are counted as missed.
    pub switches: u64,
}

/// A thread that is off-CPU when the recording begins: the start of its wait was not recorded, and it may not end. Written by the iterator over tasks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Asleep {
    /// Thread group.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// [`WaitBody::out`] of its wait: when the wait, or the recording, began.
    pub out: u64,
    /// Its registers in user space.
    pub regs: UserRegs,
    /// See [`WaitBody`].
    pub file: OpenFile,
    /// As above.
    pub arguments: [u64; 3],
    /// As above.
    pub call: u32,
    /// As above.
    pub state: u32,
    /// The `WAIT_*` bits on call, file and I/O.
    pub flags: u32,
    /// Number of valid frames of `kernel`.
    pub frames: u32,
    /// Its kernel stack, leaf first.
    pub kernel: [u64; MAX_KERNEL_FRAMES],
}

/// The name of a file that requests read or write, or that a wait is for: sent before the first record that refers to it by
/// [`OpenFile::name`]. A renamed file has a different key, as does another file that reuses its inode number.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct FileNameHead {
    /// Kind [`crate::RecordKind::FileName`].
    pub header: RecordHeader,
    /// The file.
    pub file: OpenFile,
    /// Number of bytes that follow: the names from the file up to the root of its file system, each terminated by NUL.
    pub len: u32,
    /// 1: not all names fit.
    pub cut: u32,
}

/// Maximum length of the names of a [`FileNameHead`], in bytes.
pub const NAMES_LEN: usize = 1024;

const _: () = assert!(size_of::<OpenFile>() == 32);
const _: () = assert!(size_of::<Waker>() == 32);
const _: () = assert!(size_of::<KernelLock>() == 16);
const _: () = assert!(size_of::<WaitBody>() == 40 + 32 + 32 + 24 + 16 + 24);
const _: () = assert!(size_of::<Wait>() == 24 + 168 + 64);
const _: () = assert!(size_of::<StackAheadHead>() == 24 + 64);
const _: () = assert!(size_of::<CallPath>() == 24 + 8 + 256);
const _: () = assert!(size_of::<ThreadWaits>() == 2 * (168 + 64) + 32 + 16 + 24 + 24);
const _: () = assert!(size_of::<FileNameHead>() == 24 + 32 + 8);
const _: () = assert!(size_of::<Asleep>() == 16 + 32 + 32 + 24 + 16 + 8 * MAX_KERNEL_FRAMES);
