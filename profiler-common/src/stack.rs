//! The stacks of a thread at an event: user and kernel stacks, which are sent once and referred to by their keys, and the copy of the part that a
//! walk did not reach.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::RecordHeader;

/// Maximum number of kernel frames of a stack: the kernel's limit (`PERF_MAX_STACK_DEPTH`).
pub const MAX_KERNEL_FRAMES: usize = 127;

/// The sizes of stack copies in bytes, if there is one: a ring buffer only reserves constant sizes.
pub const STACK_CLASSES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

/// The user registers are valid (the thread is not a kernel thread).
pub const FLAG_USER_REGS: u32 = 1;
/// The event occurred while the CPU was in the kernel.
pub const FLAG_IN_KERNEL: u32 = 2;
/// The stack copy ends before the stack: the limit was reached, or the ring was half full and nothing was copied.
pub const FLAG_STACK_CUT: u32 = 4;
/// Memory at the stack pointer could not be read at all.
pub const FLAG_STACK_UNREADABLE: u32 = 8;
/// The stack copy ends before an unreadable page: the end of the mapping, or a page that is not in memory.
pub const FLAG_STACK_STOPPED: u32 = 16;
/// The walk ended at the thread's first frame: there is nothing left to unwind.
pub const FLAG_WALK_COMPLETE: u32 = 32;
/// The registers are those of the leaf although the stack was walked: the copy is for checking the walk.
pub const FLAG_CHECK: u32 = 64;
/// The registers' instruction pointer is a return address.
pub const FLAG_CALLER: u32 = 128;
/// Only the innermost frame was taken, since the recording cost too much ([`crate::thinning`]).
pub const FLAG_THINNED: u32 = 256;
/// Of a sample: these bits are the binary logarithm of the number of samples that it represents.
pub const REPRESENTS_SHIFT: u32 = 16;
/// Above [`REPRESENTS_SHIFT`].
pub const REPRESENTS_MASK: u32 = 7;

/// The user registers from which unwinding starts.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct UserRegs {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer (rbp, x29).
    pub fp: u64,
    /// Link register (x30). x86-64: 0, and within a walk the value of `unwind::link_of_bx`.
    pub lr: u64,
}

/// The stacks of a thread at an event.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Stacks {
    /// Key of the user stack as far as it was walked; 0: not walked.
    pub user: u64,
    /// Key of the kernel stack; 0: none.
    pub kernel: u64,
    /// The address for which the walk found no mapping; 0: none.
    pub unmapped: u64,
    /// User registers, if [`FLAG_USER_REGS`]: of the frame at which the walk stopped, or of the leaf.
    pub regs: UserRegs,
    /// `FLAG_*`
    pub flags: u32,
    /// Number of valid bytes of [`Stacked::copy`], read upward from `regs.sp`.
    pub copied: u32,
}

/// A record with capacity for `N` bytes of stack.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stacked<H, const N: usize> {
    /// Fixed part.
    pub head: H,
    /// The user stack from the stack pointer upward.
    pub copy: [u8; N],
}

/// Maximum number of user frames of a walk; of a deeper stack, the innermost are kept.
pub const MAX_USER_FRAMES: usize = 1024;

/// This bit of a user frame marks one that a signal interrupted: it is not a return address. User addresses never have it set.
pub const INTERRUPTED: u64 = 1 << 63;

/// Start of a stack's record; `count` frames of 8 bytes follow, leaf first.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct StackHead {
    /// Kind [`crate::RecordKind::UserStack`] or [`crate::RecordKind::KernelStack`].
    pub header: RecordHeader,
    /// Hash of everything below, and of the address space.
    pub key: u64,
    /// Number of frames.
    pub count: u32,
    /// Number of a [`crate::unwind::WalkEnd`] (0 for kernel stacks).
    pub end: u32,
}

const _: () = assert!(size_of::<StackHead>() == 40);
const _: () = assert!(size_of::<Stacks>() == 64);

/// Adds a word to a hash. Two multiplications of 64 bits each spread every bit (the mixer of `SplitMix64`).
#[inline(always)]
#[allow(clippy::inline_always)] // in the verifier's view a call is dearer than the arithmetic
pub const fn mix(hash: u64, word: u64) -> u64 {
    let mut mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Adds a frame to the key of a stack: one multiplication, and a shift so that upper bits count too.
#[inline(always)]
#[allow(clippy::inline_always)] // as `mix`
pub const fn absorb(key: u64, frame: u64) -> u64 {
    let key = (key ^ frame).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key ^ (key >> 32)
}

/// The key of a kernel stack before [`absorb`] has added its frames, from the innermost on.
pub const KERNEL_KEY: u64 = 1;

/// The key of a kernel stack of `count` frames, all of which were added. Never 0.
#[inline(always)]
#[allow(clippy::inline_always)] // as `mix`
pub const fn kernel_key(key: u64, count: u32) -> u64 {
    mix(key, count as u64) | 1
}
