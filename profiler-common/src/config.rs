//! The read-only configuration that user space sets before the programs are loaded.

/// Offsets (bytes) of the kernel's struct fields, from the running kernel's BTF, and the recording's settings.
///
/// An offset of [`MISSING`] turns off exactly what needs it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Config {
    /// [`crate::ABI_VERSION`] of user space.
    pub abi_version: u32,
    /// 1: every task is in scope (`-a`).
    pub whole_system: u32,
    /// Bytes of stack to copy at most; 0 turns the copy off.
    pub stack_copy: u32,
    /// 1: user stacks are walked with unwind tables.
    pub walk: u32,
    /// 1: the stack is copied from its leaf even where the walk succeeded, to check the one against the other.
    pub check_walks: u32,
    /// The recorder's own thread groups, never in scope.
    pub exclude_pid: [u32; 3],
    /// `task_struct.pid`
    pub task_pid: u32,
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.comm`
    pub task_comm: u32,
    /// `task_struct.exit_code`
    pub task_exit_code: u32,
    /// `task_struct.min_flt`
    pub task_min_flt: u32,
    /// `task_struct.maj_flt`
    pub task_maj_flt: u32,
    /// `task_struct.se.sum_exec_runtime`
    pub task_sum_exec_runtime: u32,
    /// `task_struct.mm`
    pub task_mm: u32,
    /// `task_struct.flags`
    pub task_flags: u32,
    /// `task_struct.thread.fsbase` (x86-64): the thread control block sits above a thread's stack.
    pub task_fsbase: u32,
    /// `mm_struct.start_stack`
    pub mm_start_stack: u32,
    /// `mm_struct.arg_start`
    pub mm_arg_start: u32,
    /// `mm_struct.arg_end`
    pub mm_arg_end: u32,
    /// `linux_binprm.filename`
    pub bprm_filename: u32,
    /// `task_struct.__state` (before 5.14: `state`)
    pub task_state: u32,
}

/// The value of an offset that the running kernel does not have.
pub const MISSING: u32 = u32::MAX;

const _: () = assert!(size_of::<Config>() == 92);
