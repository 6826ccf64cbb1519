//! A time in which a thread did not run, as subcommands, the profile and reports read it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{KernelLock, MappedFile, MappedFileId, StackId, ThreadId};
use base::addr::{Avma, Timestamp};
use base::named;

/// A wait, or several short ones at the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitFact {
    /// When the thread was switched out; for several waits, the first.
    pub start: Timestamp,
    /// When it ran again; for several, the last.
    pub end: Timestamp,
    /// The waiting thread.
    pub thread: ThreadId,
    /// Innermost frame of user and kernel stack together, at the switch-out.
    pub stack: Option<StackId>,
    /// Time off CPUs: `end - start`, or the sum of several waits.
    pub off: Duration,
    /// The part of `off` in which the thread was runnable, waiting for a CPU.
    pub queued: Duration,
    /// The longest of several.
    pub longest: Duration,
    /// How many waits this represents, at least 1.
    pub count: u32,
    /// Why it waited.
    pub reason: WaitReason,
    /// The system call that the thread was in.
    pub call: Option<WaitCall>,
    /// The thread that ended it.
    pub waker: Option<WakerFact>,
    /// How completely it was seen.
    pub coverage: Coverage,
    /// Whether it was within a page fault.
    pub in_fault: bool,
    /// The CPU on which the thread ran again; `None` if unknown.
    pub cpu: Option<u16>,
    /// The futex that it waited for, if its reason is a lock or a condition; for several waits, the first one's.
    pub futex: Option<Futex>,
    /// The lock of the kernel that it waited for, if the kernel reports locks; for several waits, their holder is the
    /// first one's.
    pub lock: Option<Box<KernelLock>>,
    /// The thread's scheduling priority at the switch-out, or if it was not seen at the switch-in (`task_struct.prio`): lower numbers run first. From -1
    /// (deadline) over 0 to 99 (real-time) to 139.
    pub priority: Option<i16>,
}

impl WaitFact {
    /// The part of `off` spent waiting for something other than a CPU.
    pub fn blocked(&self) -> Duration {
        self.off.saturating_sub(self.queued)
    }

    /// The part of `off` spent waiting for a CPU: all of it, if that was the reason.
    pub fn for_cpu(&self) -> Duration {
        for_cpu(self.reason, self.off, self.queued)
    }

    /// Its time by reason: its own reason, and a CPU. Both if both have time, else one of them.
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

named! {
    /// How completely a wait was seen.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
    pub enum Coverage {
        /// All of it.
        #[default]
        #[serde(rename = "whole")]
        Full => "whole",
        /// Stack reused from an earlier wait with identical registers (rate limited).
        #[serde(rename = "like-earlier")]
        StackReused => "like-earlier",
        /// It was in progress when the thread began to be recorded: its stack was not seen.
        #[serde(rename = "no-start")]
        StartMissed => "no-start",
        /// It was in progress when the recording ended.
        #[serde(rename = "no-end")]
        EndMissed => "no-end",
    }
}

/// The system call that a thread waited in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaitCall {
    /// Its number on the recorded machine's architecture.
    pub number: u32,
    /// Its name, or `syscall N`.
    pub name: String,
    /// The file of its descriptor, if it has a name.
    pub file: Option<MappedFileId>,
    /// The path argument.
    pub path: Option<String>,
}

/// A futex: the word in memory that locks and conditions of a program consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Futex {
    /// Its address in the process that waited.
    pub address: Avma,
    /// The file in whose data it is, including data without bytes in the file (`.bss`), and the distance in bytes from
    /// the start of that file's mappings, which in a shared library is the address of the symbol.
    pub place: Option<(MappedFileId, u64)>,
}

impl Futex {
    /// The variable that it is in: `queue`, or `queue + 0x8` behind its start.
    pub fn symbol(&self, files: &[MappedFile]) -> Option<String> {
        let (file, distance) = self.place?;
        let variable = files.get(file.index())?.variable(distance)?;
        Some(match distance - variable.start {
            0 => variable.name.clone(),
            behind => format!("{} + {behind:#x}", variable.name),
        })
    }
}

/// The thread that woke another.
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
    /// Its call stack.
    pub stack: Option<StackId>,
    /// Whether it was an interrupt (a timer, a device) that happened to occur while this thread ran; `None` if unknown.
    pub by_interrupt: Option<bool>,
}

named! {
    in order [
        RunQueue, Disk, FileSystem, Memory, Lock, Condition, Poll, Pipe, Socket, Sleep, Child, Stopped,
        Kernel, Unknown, Throttled
    ];
    /// Why a thread waited.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum WaitReason {
        /// A CPU: it was preempted, or had just been created.
        RunQueue => "run-queue",
        /// CPU quota: its cgroup had used up its share (`cpu.max`).
        Throttled => "throttled",
        /// A disk: a read or write that it, or another thread, had started.
        Disk => "disk",
        /// A lock in the program: a futex that is held.
        Lock => "lock",
        /// A condition, or another event in the program: a futex that is notified, `sigwait`, a semaphore.
        Condition => "condition",
        /// One of several descriptors: poll, select, epoll, `io_uring`; or input of a terminal or another device.
        Poll => "poll",
        /// The other end of a pipe.
        Pipe => "pipe",
        /// The other end of a socket.
        Socket => "socket",
        /// A timeout.
        Sleep => "sleep",
        /// The end of a child.
        Child => "child",
        /// The end of a stop by a signal or a debugger.
        Stopped => "stopped",
        /// A lock or an event of the file system, without disk I/O for this thread.
        FileSystem => "file-system",
        /// Memory: the lock of the address space, reclaim, compaction, userfaultfd.
        Memory => "memory",
        /// Something else in the kernel.
        Kernel => "kernel",
        /// Not seen.
        #[default]
        Unknown => "unknown",
    }
}

impl WaitReason {
    /// Whether the thread was idle rather than held up: waits of event loops and thread pools.
    pub fn is_idle(self) -> bool {
        matches!(
            self,
            Self::Condition | Self::Poll | Self::Sleep | Self::Child | Self::Stopped
        )
    }
}

/// Waits of one thread that exceeded the profile's budget: the shortest are folded first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedWaits {
    /// The thread.
    pub thread: ThreadId,
    /// Why it waited.
    pub reason: WaitReason,
    /// Number of waits: the sum of [`WaitFact::count`].
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
