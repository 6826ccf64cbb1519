//! Categories and their colours, used in the activity graph.

use fxprof_processed_profile::{CategoryColor, Profile};

use fact::{Location, WaitReason};

/// A category; its discriminant is its index in `meta.categories`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// The front end's default, which must be the first grey category: unknown code, missing
    /// frames.
    Other = 0,
    /// Code of programs and libraries.
    User = 1,
    /// Code of the kernel.
    Kernel = 2,
    /// Code generated at run time.
    Jit = 3,
    /// Markers of page faults that found their page in memory.
    Fault = 4,
    /// Markers of page faults that waited for a disk.
    DiskFault = 5,
    /// Markers of pages that were read.
    Read = 6,
    /// Waits of an idle thread. The front end can hide markers with exactly this name.
    Idle = 7,
    /// The thread was runnable but waited for a CPU.
    WaitCpu = 8,
    /// Waits for a disk.
    WaitDisk = 9,
    /// Waits within page faults.
    WaitFault = 10,
    /// Waits for locks and events of a file system.
    WaitFileSystem = 11,
    /// Waits for memory and the lock of the address space.
    WaitMemory = 12,
    /// Waits for the program's own locks.
    WaitLock = 13,
    /// Waits for the other end of a pipe or socket.
    WaitPeer = 14,
    /// Other waits.
    WaitOther = 15,
    /// Markers of block requests.
    Request = 16,
}

/// Number of categories; those of Firefox's own profiler follow.
pub const COUNT: u16 = Category::Request as u16 + 1;

/// Adds the categories to a profile, which already has the first one, `Other`.
pub fn add_to(profile: &mut Profile) {
    for (name, color) in [
        ("User", CategoryColor::Yellow),
        ("Kernel", CategoryColor::Orange),
        ("JIT code", CategoryColor::Green),
        ("Page fault", CategoryColor::LightBlue),
        ("Page fault (disk)", CategoryColor::Red),
        ("Pages read", CategoryColor::Blue),
        ("Idle", CategoryColor::Transparent),
        ("Waiting: CPU", CategoryColor::Magenta),
        ("Waiting: disk", CategoryColor::Red),
        ("Waiting: page fault", CategoryColor::LightRed),
        ("Waiting: file system", CategoryColor::Brown),
        ("Waiting: memory", CategoryColor::LightBlue),
        ("Waiting: lock", CategoryColor::Purple),
        ("Waiting: pipe or socket", CategoryColor::LightGreen),
        ("Waiting: other", CategoryColor::DarkGray),
        ("Block request", CategoryColor::Blue),
    ] {
        profile.add_category(name, color);
    }
}

impl From<&Location> for Category {
    fn from(location: &Location) -> Self {
        match location {
            Location::Module { .. } | Location::FileOffset { .. } => Self::User,
            Location::Kernel { .. } => Self::Kernel,
            Location::Jit { .. } | Location::Anonymous { .. } => Self::Jit,
            Location::Unmapped { .. } | Location::Truncated(_) => Self::Other,
        }
    }
}

impl Category {
    /// The category of a wait. A wait within a page fault is never idle, whatever the kernel waits
    /// for.
    pub fn of_wait(reason: WaitReason, in_fault: bool) -> Self {
        match reason {
            WaitReason::RunQueue | WaitReason::Throttled => Self::WaitCpu,
            WaitReason::Disk => Self::WaitDisk,
            _ if in_fault => Self::WaitFault,
            _ if reason.is_idle() => Self::Idle,
            WaitReason::FileSystem => Self::WaitFileSystem,
            WaitReason::Memory => Self::WaitMemory,
            WaitReason::Lock => Self::WaitLock,
            WaitReason::Pipe | WaitReason::Socket => Self::WaitPeer,
            _ => Self::WaitOther,
        }
    }
}
