//! sample: a thread was on a CPU when the sampling event fired.

use crate::RecordHeader;

/// Kernel frames of a stack, at most: the kernel's own limit (`PERF_MAX_STACK_DEPTH`).
pub const MAX_KERNEL_FRAMES: usize = 127;

/// The stack copies come in these sizes, in bytes, or there is none: a ring buffer reserves constant sizes only.
pub const STACK_CLASSES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

/// The user registers were valid (the thread is no kernel thread).
pub const FLAG_USER_REGS: u32 = 1;
/// The event fired while the CPU was in the kernel.
pub const FLAG_IN_KERNEL: u32 = 2;
/// The stack copy ends before the stack does: the limit was reached.
pub const FLAG_STACK_CUT: u32 = 4;
/// The stack pointer could not be read at all.
pub const FLAG_STACK_UNREADABLE: u32 = 8;
/// The stack copy ends before a page that could not be read: the end of the mapping, or a page that is not in memory.
pub const FLAG_STACK_STOPPED: u32 = 16;

/// The walk ended at the thread's first frame: nothing is left to unwind.
pub const FLAG_WALK_COMPLETE: u32 = 32;
/// The registers are those of the leaf although the stack was walked: the copy is there to check the walk.
pub const FLAG_CHECK: u32 = 64;
/// The registers' instruction pointer is a return address.
pub const FLAG_CALLER: u32 = 128;

/// The user registers that unwinding starts from.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct UserRegs {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer (rbp, x29).
    pub fp: u64,
    /// Link register (x30). x86-64: 0, and within a walk what `unwind::link_of_bx` says.
    pub lr: u64,
}

/// Starts a sample's record; the copy of the stack follows in an array of fixed size.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct SampleHead {
    /// Kind [`crate::RecordKind::Sample`].
    pub header: RecordHeader,
    /// The thread's time on CPUs since its previous sample, in ns.
    pub cpu_time: u64,
    /// Key of the user stack as far as it was walked; 0: not at all.
    pub user_stack: u64,
    /// Key of the kernel stack; 0: none.
    pub kernel_stack: u64,
    /// The address at which the walk found no mapping; 0: none.
    pub unmapped: u64,
    /// User registers, if [`FLAG_USER_REGS`]: of the frame at which the walk stopped, or of the leaf.
    pub regs: UserRegs,
    /// `FLAG_*`
    pub flags: u32,
    /// Valid bytes of [`Sample::stack`], read upward from `regs.sp`.
    pub stack_len: u32,
}

/// One sample with room for `N` bytes of stack.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sample<const N: usize> {
    /// Fixed part.
    pub head: SampleHead,
    /// The user stack from the stack pointer upward.
    pub stack: [u8; N],
}

const _: () = assert!(size_of::<SampleHead>() == 96);
const _: () = assert!(size_of::<Sample<4096>>() == 96 + 4096);
