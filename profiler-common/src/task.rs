//! task: starts, executables, names and ends of threads.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::RecordHeader;
use crate::fault::FaultCounts;

/// `TASK_COMM_LEN` of the kernel.
pub const COMM_LEN: usize = 16;
/// Maximum length of an executable path in a record, in bytes.
pub const PATH_LEN: usize = 256;
/// Maximum length of a command line in a record, in bytes (arguments separated by NUL).
pub const COMMAND_LINE_LEN: usize = 1024;

/// A thread or process started (`task:task_newtask`). The header's pid and tid are the child's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct TaskNew {
    /// Kind [`crate::RecordKind::TaskNew`].
    pub header: RecordHeader,
    /// Thread group of the creator.
    pub parent_pid: u32,
    /// Thread that created it.
    pub parent_tid: u32,
    /// Clone flags (`CLONE_VM` means a shared address space).
    pub clone_flags: u64,
    /// Its address space ([`crate::space::space_id`]).
    pub space: u64,
    /// Name at its start.
    pub comm: [u8; COMM_LEN],
}

/// A process replaced its program (`sched:sched_process_exec`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct TaskExec {
    /// Kind [`crate::RecordKind::TaskExec`].
    pub header: RecordHeader,
    /// The thread that called execve; it takes over the group leader's tid.
    pub old_tid: u32,
    /// Number of valid bytes of `path`.
    pub path_len: u32,
    /// Number of valid bytes of `command_line`.
    pub command_line_len: u32,
    /// Explicit padding.
    pub pad: u32,
    /// The new address space.
    pub space: u64,
    /// Name after exec.
    pub comm: [u8; COMM_LEN],
    /// `bprm->filename`.
    pub path: [u8; PATH_LEN],
    /// Memory from `mm->arg_start`, at most to `arg_end`.
    pub command_line: [u8; COMMAND_LINE_LEN],
}

/// A thread ended (`sched:sched_process_exit`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct TaskExit {
    /// Kind [`crate::RecordKind::TaskExit`].
    pub header: RecordHeader,
    /// `task->exit_code`: a wait status.
    pub exit_code: u32,
    /// Explicit padding.
    pub pad: u32,
    /// CPU time since the thread's last sample, in ns.
    pub cpu_time: u64,
    /// The kernel's own value: `task->se.sum_exec_runtime` in ns (0: unknown).
    pub sum_exec_runtime: u64,
    /// `task->min_flt`
    pub minor_faults: u64,
    /// `task->maj_flt`
    pub major_faults: u64,
    /// Their outcomes.
    pub faults: FaultCounts,
}

/// A thread changed its name (`task:task_rename`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct TaskRename {
    /// Kind [`crate::RecordKind::TaskRename`].
    pub header: RecordHeader,
    /// The new name.
    pub comm: [u8; COMM_LEN],
}

const _: () = assert!(size_of::<TaskNew>() == 24 + 16 + 8 + 16);
const _: () = assert!(size_of::<TaskExec>() == 24 + 16 + 8 + 16 + 256 + 1024);
const _: () = assert!(size_of::<TaskExit>() == 24 + 8 + 32 + 40);
const _: () = assert!(size_of::<TaskRename>() == 24 + 16);
