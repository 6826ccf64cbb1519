//! A time in which a thread did not run: the fact that verbs, the profile and reports read.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MappedFileId, StackId, ThreadId};
use crate::addr::Timestamp;

/// A wait, or several short ones at the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitFact {
    /// When the thread was switched out; of several waits, the first.
    pub start: Timestamp,
    /// When it ran again; of several, the last.
    pub end: Timestamp,
    /// Whose.
    pub thread: ThreadId,
    /// Innermost frame of user and kernel stack together, at the switch-out.
    pub stack: Option<StackId>,
    /// Time off CPUs: `end - start`, or the sum of several waits.
    pub off: Duration,
    /// The part of `off` in which the thread could have run, but for want of a CPU.
    pub queued: Duration,
    /// The longest of several.
    pub longest: Duration,
    /// How many waits this stands for, at least 1.
    pub count: u32,
    /// What for.
    pub reason: WaitReason,
    /// The system call that the thread was in.
    pub call: Option<WaitCall>,
    /// Who ended it.
    pub waker: Option<WakerFact>,
    /// How sure all this is.
    pub sight: Sight,
    /// It was within a page fault.
    pub in_fault: bool,
}

impl WaitFact {
    /// The part of `off` that is a wait for something else than a CPU.
    pub fn blocked(&self) -> Duration {
        self.off.saturating_sub(self.queued)
    }

    /// The part of `off` that is a wait for a CPU: all of it, if that is what it was for.
    pub fn for_cpu(&self) -> Duration {
        for_cpu(self.reason, self.off, self.queued)
    }

    /// What its time went to: what it is for, and a CPU. Both are told if there is time of both, else one of them.
    pub fn parts(&self) -> impl Iterator<Item = (WaitReason, Duration)> + use<> {
        parts(self.reason, self.off, self.queued)
    }
}

fn for_cpu(reason: WaitReason, off: Duration, queued: Duration) -> Duration {
    match reason {
        WaitReason::RunQueue => off,
        _ => queued.min(off),
    }
}

fn parts(reason: WaitReason, off: Duration, queued: Duration) -> impl Iterator<Item = (WaitReason, Duration)> {
    let queued = for_cpu(reason, off, queued);
    let blocked = off.saturating_sub(queued);
    let own = (!blocked.is_zero() || queued.is_zero()).then_some((reason, blocked));
    own.into_iter()
        .chain((!queued.is_zero()).then_some((WaitReason::RunQueue, queued)))
}

/// What was seen of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sight {
    /// All of it.
    #[default]
    Whole,
    /// Its stack is that of an earlier wait with the same registers: waits came too fast to look at each.
    LikeEarlier,
    /// It was under way when the thread began to be recorded: nobody saw its stack.
    NoStart,
    /// It was under way when the recording ended.
    NoEnd,
}

/// The system call that a thread waited in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaitCall {
    /// Its number on the recorded machine's architecture.
    pub number: u32,
    /// Its name, or `syscall N`.
    pub name: String,
    /// The file of its descriptor, if that is one with a name.
    pub file: Option<MappedFileId>,
    /// The path that it was called with.
    pub path: Option<String>,
}

/// Who woke a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakerFact {
    /// When.
    pub time: Timestamp,
    /// Thread group; 0: unknown or the idle task.
    pub pid: u32,
    /// Thread; 0: the idle task.
    pub tid: u32,
    /// The thread, if it is recorded.
    pub thread: Option<ThreadId>,
    /// Where it was.
    pub stack: Option<StackId>,
    /// An interrupt (a timer, a device) that happened to come while this thread ran; `None`: unknown.
    pub by_interrupt: Option<bool>,
}

/// What a thread waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitReason {
    /// A CPU: it was preempted, or had just been born.
    RunQueue,
    /// A disk: a read or write that it started, or that somebody else had.
    Disk,
    /// A lock of the program's own: a futex that is held.
    Lock,
    /// A condition, or another event in the program: a futex that is notified, `sigwait`, a semaphore.
    Condition,
    /// One of several descriptors: poll, select, epoll, `io_uring`; or input of a terminal or another device.
    Poll,
    /// The other end of a pipe.
    Pipe,
    /// The other end of a socket.
    Socket,
    /// Time.
    Sleep,
    /// The end of a child.
    Child,
    /// Somebody who stopped it: a signal, a debugger.
    Stopped,
    /// A lock or an event of the file system, without a disk's being at work for this thread.
    FileSystem,
    /// Memory: the lock of the address space, reclaim, compaction, userfaultfd.
    Memory,
    /// Something else in the kernel.
    Kernel,
    /// Nobody saw.
    #[default]
    Unknown,
}

impl WaitReason {
    /// Every reason, in the order of tables.
    pub const ALL: [Self; 14] = [
        Self::RunQueue,
        Self::Disk,
        Self::FileSystem,
        Self::Memory,
        Self::Lock,
        Self::Condition,
        Self::Poll,
        Self::Pipe,
        Self::Socket,
        Self::Sleep,
        Self::Child,
        Self::Stopped,
        Self::Kernel,
        Self::Unknown,
    ];

    /// As tables, CSV and JSON name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RunQueue => "run-queue",
            Self::Disk => "disk",
            Self::Lock => "lock",
            Self::Condition => "condition",
            Self::Poll => "poll",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Sleep => "sleep",
            Self::Child => "child",
            Self::Stopped => "stopped",
            Self::FileSystem => "file-system",
            Self::Memory => "memory",
            Self::Kernel => "kernel",
            Self::Unknown => "unknown",
        }
    }

    /// The thread had nothing to do, rather than being held up: waits of event loops and thread pools.
    pub fn is_idle(self) -> bool {
        matches!(
            self,
            Self::Condition | Self::Poll | Self::Sleep | Self::Child | Self::Stopped
        )
    }
}

/// Waits of one thread that the profile's budget had no room for one by one: the shortest go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedWaits {
    /// Whose.
    pub thread: ThreadId,
    /// What for.
    pub reason: WaitReason,
    /// How many: the sum of [`WaitFact::count`].
    pub waits: u64,
    /// Sum of [`WaitFact::off`], in ns.
    pub off: u64,
    /// Sum of [`WaitFact::queued`], in ns.
    pub queued: u64,
    /// The longest of them, in ns.
    pub longest: u64,
}

impl FoldedWaits {
    /// As [`WaitFact::parts`].
    pub fn parts(&self) -> impl Iterator<Item = (WaitReason, Duration)> + use<> {
        parts(
            self.reason,
            Duration::from_nanos(self.off),
            Duration::from_nanos(self.queued),
        )
    }
}
