//! A thread's previous walk: most of a thread's stacks differ only in their inner frames.
//!
//! If a walk reaches a frame of the previous one with the same registers, everything outside it is the same if the words that the steps
//! read there are unchanged. Comparing them costs a fraction of the steps: no range, no row, no rule. Every word is compared on the stack.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)] // Rows count in small numbers.

use crate::expected::Expected;
use crate::stack::{INTERRUPTED, UserRegs};
use crate::unwind::{Arch, RA_ABOVE_FP, RA_IN_LINK_REGISTER, Row};

/// Maximum number of frames of a remembered walk, a power of two; deeper walks are not remembered.
pub const LAST_FRAMES: usize = 256;
/// Number of walks that each CPU remembers, by thread, a power of two.
pub const LAST_WALKS: u32 = 16;
/// [`LastFrame::step`]: the step depended on more than two words.
pub const OPAQUE: u32 = u32::MAX;
/// arm64, [`LastFrame::step`]: where the distance of the return address begins.
pub(crate) const BACK_SHIFT: u32 = 16;
/// arm64: a word at this distance or farther is not remembered.
const FARTHEST: u64 = (1 << BACK_SHIFT) - 1;
/// Frames that [`LastWalk::reached`] checks one by one: a walk mostly goes outward like the previous one.
const NEAR: u32 = 4;

/// The number of a frame as an index. The compiler must not see that the mask is redundant, because the kernel's verifier does not.
#[inline(always)]
pub fn within(number: u32) -> usize {
    core::hint::black_box(number) as usize & (LAST_FRAMES - 1)
}

/// A frame of a walk.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastFrame {
    /// In the form of a stack's frames: the instruction pointer, with [`INTERRUPTED`].
    pub frame: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// [`UserRegs::lr`]
    pub lr: u64,
    /// The hash of this frame and of all frames outside it.
    pub key: u64,
    /// 1: the instruction pointer is a return address.
    pub caller: u32,
    /// How its caller was found: distances in words below the caller's stack pointer. x86-64: that of the caller's saved frame pointer (0: it
    /// did not change); the return address is one word below. arm64: the same in the lower half, and that of the return address in the
    /// upper half. [`OPAQUE`]
    pub step: u32,
}

impl LastFrame {
    /// The registers of the frame.
    #[inline(always)]
    pub const fn regs(&self) -> UserRegs {
        UserRegs {
            ip: self.frame & !INTERRUPTED,
            sp: self.sp,
            fp: self.fp,
            lr: self.lr,
        }
    }

    /// Whether a walk in this state takes the same path as the other one, while the words are the same.
    #[inline(always)]
    pub const fn is_here(&self, other: &Self) -> bool {
        self.frame == other.frame
            && self.sp == other.sp
            && self.fp == other.fp
            && self.lr == other.lr
            && self.caller == other.caller
    }
}

/// The value of [`LastFrame::step`] for a frame with these registers, whose caller's stack pointer is `caller_sp`, by the row's rules. Except for
/// [`OPAQUE`] ones, both words are between the two stack pointers, at multiples of 8, and the return address is the upper one.
#[inline(always)]
pub const fn step_of_row(arch: Arch, row: Row, regs: &UserRegs, caller_sp: u64) -> u32 {
    if !caller_sp.is_multiple_of(8) {
        return OPAQUE;
    }
    let offset = row.fp_offset as i64 * 8;
    let slot = match (row.rules & 15, row.rules >> 4) {
        // CFA = sp + n, fp + n, or a stub's: no word is read for it.
        (1 | 2 | 6 | 11, 0) => {
            return match arch {
                Arch::X86_64 => 0,
                Arch::Aarch64 => back_and_fp(back_of_row(row, at_sp(regs, offset), caller_sp), 0, regs.sp, caller_sp),
            };
        }
        (1 | 2 | 6 | 11, 1) => caller_sp.wrapping_add_signed(offset),
        (1 | 2 | 6 | 11, 2) => regs.fp.wrapping_add_signed(offset),
        (1 | 2 | 6 | 11, 3) => regs.sp.wrapping_add_signed(offset),
        _ => return OPAQUE,
    };
    let below = caller_sp.wrapping_sub(slot);
    if below == 0 || below % 8 != 0 || below > caller_sp.wrapping_sub(regs.sp) || below >> 31 != 0 {
        return OPAQUE;
    }
    match arch {
        Arch::X86_64 => (below / 8) as u32,
        Arch::Aarch64 => back_and_fp(back_of_row(row, slot, caller_sp), below, regs.sp, caller_sp),
    }
}

/// arm64: how far below `caller_sp` the return address is, in bytes, where the caller's frame pointer is at `slot`; 0: in no word.
#[inline(always)]
const fn back_of_row(row: Row, slot: u64, caller_sp: u64) -> u64 {
    match row.link {
        RA_IN_LINK_REGISTER => 0,
        RA_ABOVE_FP => caller_sp.wrapping_sub(slot).wrapping_sub(8),
        words => words as u64 * 8,
    }
}

/// arm64: [`LastFrame::step`], from both distances in bytes.
#[inline(always)]
const fn back_and_fp(back: u64, fp: u64, sp: u64, caller_sp: u64) -> u32 {
    let is_in_order = fp == 0 || back < fp;
    if back == 0 || !back.is_multiple_of(8) || back > caller_sp.wrapping_sub(sp) || !is_in_order {
        return OPAQUE;
    }
    let (back, fp) = (back / 8, fp / 8);
    if back >= FARTHEST || fp >= FARTHEST {
        return OPAQUE;
    }
    (back << BACK_SHIFT | fp) as u32
}

/// [`LastFrame::step`] of a step by the frame pointer: its word is below the return address, and both are below the caller's stack pointer.
#[inline(always)]
pub const fn step_of_frame_pointer(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 2,
        Arch::Aarch64 => 1 << BACK_SHIFT | 2,
    }
}

/// The frames of a walk that reached the thread's first one, outermost first. Zeroed memory is an empty walk.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct LastWalk {
    /// The address space.
    pub space: u64,
    /// Word of the run of code ranges that it used.
    pub run: u64,
    /// Number of frames.
    pub count: u64,
    /// The frames, of which `count` are valid.
    pub frames: [LastFrame; LAST_FRAMES],
    /// The steps outward from each.
    expected: [Expected; LAST_FRAMES],
    /// [`LastFrame::frame`] of each again, outermost last, so those outside any frame are a contiguous part of a stack's record.
    pub pointers: [u64; LAST_FRAMES],
}

impl Default for LastWalk {
    fn default() -> Self {
        Self {
            space: 0,
            run: 0,
            count: 0,
            frames: [LastFrame::default(); LAST_FRAMES],
            expected: [Expected::default(); LAST_FRAMES],
            pointers: [0; LAST_FRAMES],
        }
    }
}

impl LastWalk {
    /// The frame with this number, counted from outside; numbers wrap.
    #[inline(always)]
    pub fn frame(&self, number: u32) -> &LastFrame {
        &self.frames[within(number)]
    }

    /// How many frames a walk in this space and with this run may compare.
    #[inline(always)]
    pub const fn among(&self, space: u64, run: u64) -> u32 {
        if self.space == space && self.run == run {
            self.count as u32
        } else {
            0
        }
    }

    /// How many of the outermost `among` frames a walk at the stack pointer `sp` has not passed. If it is at one of them, that is the innermost of these.
    ///
    /// The innermost are checked one by one, and are close in memory; the rest is bisected. Without branches, because the verifier would follow each one.
    #[inline(always)]
    pub fn reached(&self, sp: u64, among: u32) -> u32 {
        let mut left = among;
        for _ in 0..NEAR {
            let is_any = (0_u32.wrapping_sub(left) as i32 >> 31) as u32;
            left = left.wrapping_sub(1 & is_any & self.is_inside(left.wrapping_sub(1), sp));
        }
        if left == 0 || self.is_inside(left - 1, sp) == 0 {
            return left;
        }
        let (mut found, mut half) = (0_u32, LAST_FRAMES as u32 / 2);
        while half > 0 {
            let before = found + half - 1;
            let is_left = (before.wrapping_sub(left) as i32 >> 31) as u32;
            found += half & is_left & !self.is_inside(before, sp);
            half /= 2;
        }
        found
    }

    /// All bits if the stack pointer of the frame with this number is below `sp`. Stack pointers decrease from frame to frame inward.
    #[inline(always)]
    fn is_inside(&self, number: u32, sp: u64) -> u32 {
        (self.frame(number).sp.wrapping_sub(sp).cast_signed() >> 63) as u32
    }

    /// Sets the frame with this number. Those outside it are already set.
    #[inline(always)]
    pub fn put(&mut self, arch: Arch, number: u32, frame: LastFrame) {
        self.expected[within(number)] = Expected::of(arch, frame.step, self.frame(number.wrapping_sub(1)));
        self.frames[within(number)] = frame;
        self.pointers[within(LAST_FRAMES as u32 - 1 - number)] = frame.frame;
    }

    /// The start in `pointers` of the outermost `count` frames.
    #[inline(always)]
    pub fn outermost(&self, count: u32) -> *const u64 {
        &raw const self.pointers[within(LAST_FRAMES as u32 - count)]
    }

    /// The expected words of the step outward from the frame with this number. The outermost frame has no step.
    #[inline(always)]
    pub fn expected(&self, number: u32) -> &Expected {
        &self.expected[within(number)]
    }
}

/// arm64: the place of a frame pointer whose return address is at this offset from the stack pointer.
#[inline(always)]
const fn at_sp(regs: &UserRegs, offset: i64) -> u64 {
    regs.sp.wrapping_add_signed(offset).wrapping_sub(8)
}

#[cfg(test)]
mod tests;
