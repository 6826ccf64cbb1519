//! Waits as they were captured, and what their records refer to.

use super::{At, FileId, Stacks};
use crate::addr::Timestamp;

/// A thread did not run; its [`At::time`] is when it ran again, or, of several waits, when they were told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wait {
    /// Who, and when this was told.
    pub at: At,
    /// CPU number at its end.
    pub cpu: u16,
    /// When it was switched out; of several waits, the first.
    pub out: Timestamp,
    /// When it ran again; of several, the last.
    pub end: Timestamp,
    /// Time off CPUs in ns; of several waits, their sum.
    pub off: u64,
    /// The part of `off` in which the thread could have run, but for want of a CPU.
    pub queued: u64,
    /// The longest of several, in ns.
    pub longest: u64,
    /// How many waits this stands for, at least 1.
    pub count: u32,
    /// `profiler_common::switch::state`
    pub state: u32,
    /// `profiler_common::switch::WAIT_*`
    pub flags: u32,
    /// The system call that the thread was in.
    pub call: Option<Call>,
    /// Who woke it.
    pub waker: Option<Waker>,
    /// Where it was. No copy: what the walk did not reach is in a [`StackAhead`] of the same thread with the time `out`.
    pub stacks: Stacks<'static>,
}

/// A system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Call {
    /// Its number on the recorded machine's architecture.
    pub number: u32,
    /// Its first arguments.
    pub arguments: [u64; 3],
    /// What its descriptor refers to, if it has one that was looked at.
    pub file: Option<OpenFile>,
}

/// An open file, pipe, socket or the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFile {
    /// Which.
    pub file: FileId,
    /// `st_mode`: its type; 0: neither file nor pipe nor socket (epoll, eventfd, ...).
    pub mode: u32,
    /// Magic number of the file system.
    pub magic: u32,
    /// The [`FileName::number`] of the name that it had then; 0: unknown.
    pub name: u64,
}

/// Who woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waker {
    /// When.
    pub time: Timestamp,
    /// Thread group.
    pub pid: u32,
    /// Thread; 0: the idle task, interrupted.
    pub tid: u32,
    /// Key of its [`super::UserStack`]; 0: none.
    pub user: u64,
    /// Key of its [`super::KernelStack`]; 0: none.
    pub kernel: u64,
}

/// The stack of a record that follows later, of the same thread, which calls this event's time `out` or `queued`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackAhead<'a> {
    /// Who and when.
    pub at: At,
    /// Where it is.
    pub stacks: Stacks<'a>,
}

/// The path that a system call was called with, whose wait follows later with the time `out`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallPath {
    /// Who and when.
    pub at: At,
    /// As the program spelled it; may be cut.
    pub path: Vec<u8>,
}

/// The name of a file that later events refer to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileName {
    /// Which.
    pub file: FileId,
    /// What events call this name; 0: of whatever is called `file` (logs of version 4).
    pub number: u64,
    /// Its path, as the thread sees it that used the file first; relative where its mount is not known.
    pub path: Vec<u8>,
}
