//! Which threads are recorded by what they are: the tables that user space fills.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kinds of conditions, as bits: the thread's cgroup.
pub const BY_CGROUP: u32 = 1;
/// Its name or its process's.
pub const BY_NAME: u32 = 2;
/// The file of its program.
pub const BY_EXE: u32 = 4;
/// Its effective user.
pub const BY_USER: u32 = 8;
/// Its process, or an ancestor that was alive when this process was created.
pub const BY_PID: u32 = 16;

/// Values of the tables, as bits: threads that are recorded.
pub const CHOSEN: u32 = 1;
/// Threads that are not, whatever else they are.
pub const EXCLUDED: u32 = 2;

/// A value of a condition.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Key {
    /// One of the kinds above.
    pub kind: u32,
    /// Of a program's file: the device (`super_block.s_dev`).
    pub device: u32,
    /// The id of the cgroup (`kernfs_node.id`), the inode, the user, or the process.
    pub number: u64,
}

impl Key {
    /// A value other than a program's file.
    pub const fn new(kind: u32, number: u64) -> Self {
        Self {
            kind,
            device: 0,
            number,
        }
    }
}

/// Longest path of a cgroup that is awaited, with its NUL.
pub const CGROUP_PATH_LEN: usize = 256;
/// The path of a cgroup that is recorded as soon as it is created; the rest is zero.
pub type CgroupPath = [u8; CGROUP_PATH_LEN];

/// [`crate::task::TaskNew::clone_flags`]: no recorded thread created it. It became one that is recorded, maybe long after its birth.
pub const ENTERED: u64 = 1 << 63;
/// With [`ENTERED`]: while its process executed a program. The record of that program follows.
pub const EXECUTING: u64 = 1 << 62;

/// Places in the table that decides which perf events count: how often a cgroup that is recorded was created, or became empty.
pub const CHANGES: u32 = 0;
/// Which of them count: those with this number in the upper half of their cookie.
pub const GENERATION: u32 = 1;
/// Whether they are limited to the recorded cgroups: [`LIMITED`] and the like.
pub const COVERAGE: u32 = 2;

/// Perf events are limited to the cgroups, so that threads of others do not pay for them.
pub const LIMITED: u64 = 1;
/// They are not any more. 0: they never were.
pub const WIDENED: u64 = 2;
