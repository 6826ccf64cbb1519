//! Stacks that were walked in the kernel: each distinct one is sent once, and events refer to it by its key.

use crate::RecordHeader;

/// User frames that a walk keeps; of a deeper stack, the innermost.
pub const MAX_USER_FRAMES: usize = 1024;

/// This bit of a user frame says that a signal interrupted it: it is no return address. Addresses of user space never have it.
pub const INTERRUPTED: u64 = 1 << 63;

/// Starts a stack's record; `count` frames of 8 bytes follow, leaf first.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct StackHead {
    /// Kind [`crate::RecordKind::UserStack`] or [`crate::RecordKind::KernelStack`].
    pub header: RecordHeader,
    /// The hash of everything below, and of the address space.
    pub key: u64,
    /// Frames.
    pub count: u32,
    /// Number of a [`crate::unwind::WalkEnd`] (0 for kernel stacks).
    pub end: u32,
}

const _: () = assert!(size_of::<StackHead>() == 40);

/// Adds a word to a hash. Two multiplications of 64 bits each spread every bit (the mixer of `SplitMix64`).
#[inline(always)]
#[allow(clippy::inline_always)] // in the verifier's view a call is dearer than the arithmetic
pub const fn mix(hash: u64, word: u64) -> u64 {
    let mut mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
