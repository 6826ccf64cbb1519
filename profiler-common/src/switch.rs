//! switch: a thread that does not run, from its switch-out to its switch-in.
//!
//! One record is one wait, sent when the thread runs again; where waits come faster than they can be told apart at a bearable cost, one
//! record stands for several of them, with their sums.

use crate::RecordHeader;
use crate::stack::{MAX_KERNEL_FRAMES, Stacks, UserRegs};

/// It could have run on: another thread took the CPU.
pub const WAIT_PREEMPTED: u32 = 1;
/// For I/O (`in_iowait`).
pub const WAIT_IO: u32 = 2;
/// Within a page fault.
pub const WAIT_IN_FAULT: u32 = 4;
/// Within the system call [`WaitBody::call`].
pub const WAIT_IN_CALL: u32 = 8;
/// The waker is known.
pub const WAIT_WOKEN: u32 = 16;
/// An interrupt woke it, and interrupted the thread that is named as the waker.
pub const WAIT_BY_INTERRUPT: u32 = 32;
/// Its stack is that of an earlier wait with the same registers: waits came too fast to look at each.
pub const WAIT_LIKE_EARLIER: u32 = 64;
/// The thread's life begins with this wait: for its first CPU.
pub const WAIT_BIRTH: u32 = 128;
/// It was under way when the thread began to be recorded: nobody saw its stack.
pub const WAIT_UNSEEN_START: u32 = 256;
/// It was under way when the recording ended.
pub const WAIT_UNFINISHED: u32 = 512;
/// [`WaitBody::file`] is the file of the system call's descriptor.
pub const WAIT_HAS_FILE: u32 = 1024;
/// Whether an interrupt woke it is not known.
pub const WAIT_WAKER_UNSURE: u32 = 2048;

/// In the number of a system call: it is one of the i386 table, as 32-bit programs make them, and 64-bit ones by `int 0x80`.
pub const CALL_I386: u32 = 1 << 31;

/// States of a task (`include/linux/sched.h`), as far as they tell waits apart.
pub mod state {
    /// A signal may end the wait.
    pub const INTERRUPTIBLE: u32 = 1;
    /// Nothing but what it waits for.
    pub const UNINTERRUPTIBLE: u32 = 2;
    /// By a signal.
    pub const STOPPED: u32 = 4;
    /// By a tracer.
    pub const TRACED: u32 = 8;
    /// A deadly signal ends it, too.
    pub const WAKEKILL: u32 = 0x100;
    /// An idle kernel thread.
    pub const NOLOAD: u32 = 0x400;
}

/// A file that a descriptor refers to.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct OpenFile {
    /// Inode.
    pub inode: u64,
    /// Device as the kernel numbers it: major << 20 | minor.
    pub device: u32,
    /// `inode->i_generation`
    pub generation: u32,
    /// `inode->i_mode`: its type tells files, pipes and sockets apart; 0: none of them (epoll, eventfd, ...).
    pub mode: u32,
    /// Magic number of the file system.
    pub magic: u32,
    /// Key of the file under the name that it had then, as in [`FileNameHead`]; 0: it has none.
    pub name: u64,
}

/// Who woke a thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Waker {
    /// When (`CLOCK_MONOTONIC` in ns).
    pub time: u64,
    /// Key of its user stack; 0: not walked.
    pub user: u64,
    /// Key of its kernel stack; 0: not looked at.
    pub kernel: u64,
    /// Thread group.
    pub pid: u32,
    /// Thread; 0: the idle task.
    pub tid: u32,
}

/// What a wait's record tells beside who, where, and its end.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct WaitBody {
    /// When the thread was switched out; of several waits, the first.
    pub out: u64,
    /// When it ran again; of several, the last.
    pub end: u64,
    /// Time off CPUs, in ns: of one wait, from `out` to `end`; of several, their sum.
    pub off: u64,
    /// The part of `off` in which the thread could have run, but for want of a CPU.
    pub queued: u64,
    /// The longest of several, in ns.
    pub longest: u64,
    /// Who woke it, with [`WAIT_WOKEN`]; of several waits, the last.
    pub waker: Waker,
    /// The file of the call's descriptor, with [`WAIT_HAS_FILE`].
    pub file: OpenFile,
    /// First arguments of the system call.
    pub arguments: [u64; 3],
    /// Number of the system call, with [`WAIT_IN_CALL`].
    pub call: u32,
    /// How many waits the record stands for.
    pub count: u32,
    /// [`state`]s at switch-out.
    pub state: u32,
    /// `WAIT_*`
    pub flags: u32,
}

/// A wait's record. The header's time is that of the switch-in, or, of several waits, when they were told.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Wait {
    /// Kind [`crate::RecordKind::Wait`].
    pub header: RecordHeader,
    /// What happened.
    pub body: WaitBody,
    /// Where the thread was when it was switched out. What the walk did not reach follows in no copy, but came before, in a
    /// [`StackAheadHead`] of the same thread with the time `body.out`.
    pub stacks: Stacks,
}

/// Starts the record of a stack that a later record of the same thread refers to by this record's time; the copy of the stack follows.
///
/// A wait's own record is made when another thread's memory is in place, and the owner of a request may be gone when it completes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct StackAheadHead {
    /// Kind [`crate::RecordKind::StackAhead`].
    pub header: RecordHeader,
    /// Where the thread is.
    pub stacks: Stacks,
}

/// Longest path that a record carries, in bytes.
pub const PATH_LEN: usize = 256;

/// The path that the system call of a coming wait was called with (`open` and its kind).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct CallPath {
    /// Kind [`crate::RecordKind::CallPath`]; the time is the wait's `out`.
    pub header: RecordHeader,
    /// Valid bytes of `path`.
    pub len: u32,
    /// Explicit padding.
    pub pad: u32,
    /// As the program spelled it.
    pub path: [u8; PATH_LEN],
}

/// In [`ThreadWaits::seen`].
pub const ENDED_LATER: u32 = 2;

/// The waits of a thread, as the kernel side keeps them.
///
/// Wakers of other CPUs write `waker` and `waker_flags`, all else belongs to the CPU that switches the thread out or in.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct ThreadWaits {
    /// The wait under way, or that was last: `out` is 0 while the thread runs.
    pub now: WaitBody,
    /// Where it is.
    pub stacks: Stacks,
    /// Short waits that were not told yet: `count` is 0 if there are none.
    pub merged: WaitBody,
    /// Where they were.
    pub merged_stacks: Stacks,
    /// The last waker.
    pub waker: Waker,
    /// `WAIT_BY_INTERRUPT` and `WAIT_WAKER_UNSURE` as they apply to it.
    pub waker_flags: u32,
    /// 1: the thread was seen to be switched in or out. [`ENDED_LATER`]: it ended after the recording did.
    pub seen: u32,
    /// Stacks that may be walked before the budget is used up.
    pub tokens: u32,
    /// Bytes of the stack that are left to copy.
    pub want: u32,
    /// When tokens were added last.
    pub refilled: u64,
    /// The thread's switches, as the kernel counts them, that were seen or are counted as missed.
    pub switches: u64,
}

/// A thread that is off CPUs when the recording begins: its wait began unseen, and may not end. Written by the iterator over tasks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Asleep {
    /// Thread group.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// [`WaitBody::out`] of its wait: when it, or the recording, began.
    pub out: u64,
    /// Its registers in user space.
    pub regs: UserRegs,
    /// As in [`WaitBody`].
    pub file: OpenFile,
    /// As above.
    pub arguments: [u64; 3],
    /// As above.
    pub call: u32,
    /// As above.
    pub state: u32,
    /// Of `WAIT_*` those that tell of call, file and I/O.
    pub flags: u32,
    /// Valid frames of `kernel`.
    pub frames: u32,
    /// Its kernel stack, leaf first.
    pub kernel: [u64; MAX_KERNEL_FRAMES],
}

/// The name of a file that is read or written by requests, or that a wait is for: sent before the first record that refers to it by
/// [`OpenFile::name`]. A file that is renamed has another key, as has another file that takes over its inode number.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct FileNameHead {
    /// Kind [`crate::RecordKind::FileName`].
    pub header: RecordHeader,
    /// Which.
    pub file: OpenFile,
    /// Bytes that follow: the names from the file up to the root of its file system, each ended by a NUL.
    pub len: u32,
    /// 1: there were more than fit.
    pub cut: u32,
}

/// Longest list of names of a [`FileNameHead`], in bytes.
pub const NAMES_LEN: usize = 1024;

const _: () = assert!(size_of::<OpenFile>() == 32);
const _: () = assert!(size_of::<Waker>() == 32);
const _: () = assert!(size_of::<WaitBody>() == 40 + 32 + 32 + 24 + 16);
const _: () = assert!(size_of::<Wait>() == 24 + 144 + 64);
const _: () = assert!(size_of::<StackAheadHead>() == 24 + 64);
const _: () = assert!(size_of::<CallPath>() == 24 + 8 + 256);
const _: () = assert!(size_of::<ThreadWaits>() == 2 * (144 + 64) + 32 + 16 + 16);
const _: () = assert!(size_of::<FileNameHead>() == 24 + 32 + 8);
const _: () = assert!(size_of::<Asleep>() == 16 + 32 + 32 + 24 + 16 + 8 * MAX_KERNEL_FRAMES);
