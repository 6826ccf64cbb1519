//! Locks of the kernel, as the kernel itself reports them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ThreadId;
use base::event::LockId;
use base::named;
use profiler_common::switch::lock;

named! {
    /// The kinds of locks of the kernel.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum LockKind {
        /// `struct mutex`
        Mutex => "mutex",
        /// `struct rw_semaphore`
        Rwsem => "rwsem",
        /// `struct percpu_rw_semaphore`
        PercpuRwsem => "percpu-rwsem",
        /// `struct semaphore`
        Semaphore => "semaphore",
        /// `struct rt_mutex`
        RtMutex => "rt-mutex",
        /// A bit of a word.
        BitLock => "bit-lock",
    }
}

impl LockKind {
    /// Whether the kernel reports a lock of this kind with these flags ([`lock`]). In a real-time kernel most kinds
    /// consist of an rt-mutex.
    pub fn fits(self, flags: u32) -> bool {
        let is = |flag: u32| flags & flag != 0;
        match self {
            Self::Mutex => is(lock::MUTEX | lock::RT),
            Self::Rwsem => is(lock::READ | lock::WRITE) && !is(lock::PERCPU | lock::MUTEX),
            Self::PercpuRwsem => is(lock::PERCPU),
            Self::Semaphore => !is(lock::READ | lock::WRITE | lock::PERCPU | lock::MUTEX | lock::RT),
            Self::RtMutex => is(lock::RT),
            Self::BitLock => false,
        }
    }
}

/// A lock of the kernel that a thread waited for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KernelLock {
    /// Which one.
    pub id: LockId,
    /// Its kind.
    pub kind: LockKind,
    /// Whether the thread wanted to share it with other readers.
    pub is_read: bool,
    /// Whether it is the lock of the thread's own address space (`mmap_lock`).
    pub is_own_mmap: bool,
    /// Its name, if it is a variable of the kernel.
    pub name: Option<Arc<str>>,
    /// Which thread had it when the wait began.
    pub holder: Option<LockHolder>,
}

impl KernelLock {
    /// `mmap_lock`, the name of a variable, or its kind and number.
    pub fn label(&self) -> String {
        match (&self.name, self.id) {
            _ if self.is_own_mmap => "mmap_lock".to_owned(),
            (Some(name), _) => name.to_string(),
            (None, LockId::Number(number)) => format!("{} #{number}", self.kind.name()),
            (None, LockId::Static(offset)) => format!("{} at _text+{:#x}", self.kind.name(), offset.0),
        }
    }

    /// Its kind, and for which purpose the thread wanted it: `mutex`, `rwsem read`, `rwsem write`.
    pub fn wanted(&self) -> String {
        let kind = self.kind.name();
        match self.kind {
            LockKind::Rwsem | LockKind::PercpuRwsem => {
                format!("{kind} {}", if self.is_read { "read" } else { "write" })
            }
            _ => kind.to_owned(),
        }
    }
}

/// The thread that had a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockHolder {
    /// Thread group.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The thread, if it is recorded.
    pub thread: Option<ThreadId>,
    /// It is the last one of the readers that got it, and may have released it.
    pub is_reader: bool,
}
