//! Captured waits, and the records that they refer to.

use super::{At, FileId, Stacks};
use crate::addr::{KernelOffset, Timestamp};

/// A thread was off-CPU; its [`At::time`] is the end of the wait, or, for several merged waits, the
/// time of the report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wait {
    /// The thread, and the time of the report.
    pub at: At,
    /// CPU number at its end.
    pub cpu: u16,
    /// When it was switched out; for several waits, the first time.
    pub out: Timestamp,
    /// When it ran again; for several waits, the last time.
    pub end: Timestamp,
    /// Off-CPU time in ns; for several waits, the sum.
    pub off: u64,
    /// The part of `off` in which the thread was runnable, waiting for a CPU.
    pub queued: u64,
    /// The longest of several waits, in ns.
    pub longest: u64,
    /// Number of waits in this record, at least 1.
    pub count: u32,
    /// `profiler_common::switch::state`
    pub state: u32,
    /// `profiler_common::switch::WAIT_*`
    pub flags: u32,
    /// The thread's system call.
    pub call: Option<Call>,
    /// The waker of the thread.
    pub waker: Option<Waker>,
    /// The last lock of the kernel that the thread was about to sleep for. This wait is for it only if its stack says so.
    pub lock: Option<KernelLock>,
    /// The thread's scheduling priority (`task_struct.prio`): lower numbers run first. `None`: not recorded.
    pub priority: Option<i32>,
    /// Its stack. No copy: the part that the walk did not reach is in a [`StackAhead`] of the same
    /// thread with the time `out`.
    pub stacks: Stacks<'static>,
}

/// A lock of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelLock {
    /// Which one.
    pub id: LockId,
    /// `profiler_common::switch::lock`
    pub flags: u32,
    /// Thread group and thread of its holder when the wait began.
    pub holder: Option<(u32, u32)>,
}

/// The identity of a lock of the kernel, without its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockId {
    /// A variable of the kernel, whose name a [`super::Event::KernelSymbol`] may have.
    Static(KernelOffset),
    /// Another one: a number within the recording.
    Number(u64),
}

/// A system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Call {
    /// Its number on the architecture of the recorded machine.
    pub number: u32,
    /// Its first arguments.
    pub arguments: [u64; 3],
    /// The file of its descriptor, if it has one that was read.
    pub file: Option<OpenFile>,
}

/// An open file, pipe, socket or similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFile {
    /// The file.
    pub file: FileId,
    /// `st_mode`, which contains its type; 0: neither file nor pipe nor socket (epoll, eventfd,
    /// ...).
    pub mode: u32,
    /// Magic number of the file system.
    pub magic: u32,
    /// The [`FileName::number`] of its name at that time; 0: unknown.
    pub name: u64,
}

/// The waker of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waker {
    /// Time of the wakeup.
    pub time: Timestamp,
    /// Thread group.
    pub pid: u32,
    /// Thread; 0: the idle task, in an interrupt.
    pub tid: u32,
    /// Key of its [`super::UserStack`]; 0: none.
    pub user: u64,
    /// Key of its [`super::KernelStack`]; 0: none.
    pub kernel: u64,
}

/// The stack of a later record of the same thread, in which `out` or `queued` is this event's time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackAhead<'a> {
    /// The thread, and the time.
    pub at: At,
    /// Its stack.
    pub stacks: Stacks<'a>,
}

/// The path argument of a system call whose wait follows later, with the time `out`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallPath {
    /// The thread, and the time.
    pub at: At,
    /// As the program passed it; may be truncated.
    pub path: Vec<u8>,
}

/// The name of a file that later events refer to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileName {
    /// The file.
    pub file: FileId,
    /// Number of this name in events; 0: the name of any event with this `file` (logs of version
    /// 4).
    pub number: u64,
    /// Its path, as seen by the first thread that used the file; relative if its mount is unknown.
    pub path: Vec<u8>,
}
