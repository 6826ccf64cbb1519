//! A thread's previous walk: most of a thread's stacks differ only in their inner frames.
//!
//! If a walk reaches a frame of the previous one with the same registers, everything outside it is the same if the words that the steps
//! read there are unchanged. Comparing them costs a fraction of the steps: no range, no row, no rule. Every word is compared on the stack.

#![allow(clippy::inline_always)] // As in [`crate::unwind`].
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)] // Rows count in small numbers.

use crate::expected::Expected;
use crate::stack::{INTERRUPTED, UserRegs};
use crate::unwind::{Arch, Row};

/// Maximum number of frames of a remembered walk, a power of two; deeper walks are not remembered.
pub const LAST_FRAMES: usize = 256;
/// Number of walks that each CPU remembers, by thread, a power of two.
pub const LAST_WALKS: u32 = 16;
/// [`LastFrame::step`]: the step depended on more than two words.
pub const OPAQUE: u32 = u32::MAX;
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
    /// How its caller was found, in addition to the return address below the caller's stack pointer: distance in words below that of the caller's
    /// saved frame pointer; 0: it did not change. [`OPAQUE`]
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
/// [`OPAQUE`] ones, both words are between the two stack pointers, at multiples of 8.
///
/// On arm64 the return address may be anywhere in the frame, and is signed there, so each step is [`OPAQUE`]: walks are never joined.
#[inline(always)]
pub const fn step_of_row(arch: Arch, row: Row, regs: &UserRegs, caller_sp: u64) -> u32 {
    if !matches!(arch, Arch::X86_64) || !caller_sp.is_multiple_of(8) {
        return OPAQUE;
    }
    let offset = row.fp_offset as i64 * 8;
    let slot = match (row.rules & 15, row.rules >> 4) {
        // CFA = sp + n, fp + n, or a stub's: no word is read for it.
        (1 | 2 | 6 | 11, 0) => return 0,
        (1 | 2 | 6 | 11, 1) => caller_sp.wrapping_add_signed(offset),
        (1 | 2 | 6 | 11, 2) => regs.fp.wrapping_add_signed(offset),
        (1 | 2 | 6 | 11, 3) => regs.sp.wrapping_add_signed(offset),
        _ => return OPAQUE,
    };
    let below = caller_sp.wrapping_sub(slot);
    if below == 0 || below % 8 != 0 || below > caller_sp.wrapping_sub(regs.sp) || below >> 31 != 0 {
        return OPAQUE;
    }
    (below / 8) as u32
}

/// [`LastFrame::step`] of a step by the frame pointer: x86-64's word is below the return address. arm64: see [`step_of_row`].
#[inline(always)]
pub const fn step_of_frame_pointer(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 2,
        Arch::Aarch64 => OPAQUE,
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
    pub fn put(&mut self, number: u32, frame: LastFrame) {
        self.expected[within(number)] = Expected::of(frame.step, self.frame(number.wrapping_sub(1)));
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

#[cfg(test)]
mod tests {
    use std::boxed::Box;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    use super::*;
    use crate::piece::Piece;
    use crate::unwind::{Arch, Cfa, Fp, WalkEnd, step};

    const TOP: u64 = 0x7fff_0000;

    /// A function's rule by its address: each has a different frame size, some save the frame pointer, some find their frame by it.
    fn row(ip: u64) -> Row {
        match ip {
            1 => Row::plain(0, Cfa::Outermost),
            // CFA = sp + 16 .. 40.
            ip if ip % 4 == 0 => Row::new(0, Cfa::Sp, 2 + (ip / 8 % 4) as i16, Fp::Same, 0, 0),
            ip if ip % 4 == 2 => Row::new(0, Cfa::Sp, 3, Fp::AtCfa, -2, 0),
            ip if ip % 4 == 3 => Row::new(0, Cfa::Fp, 2, Fp::AtCfa, -2, 0),
            _ => Row::new(0, Cfa::Sp, 4, Fp::AtSp, 1, 0),
        }
    }

    /// The stack of these functions, outermost first, and the registers in the innermost one.
    fn build(functions: &[u64]) -> (BTreeMap<u64, u64>, UserRegs) {
        let mut memory = BTreeMap::new();
        let mut regs = UserRegs {
            ip: 1,
            sp: TOP,
            fp: 0,
            lr: 0,
        };
        for &ip in functions {
            let cfa = regs.sp;
            memory.insert(cfa - 8, regs.ip);
            let row = row(ip);
            let words = match row.rules & 15 {
                2 => 2,
                _ => u64::from(row.cfa_offset.unsigned_abs()),
            };
            let sp = cfa - words * 8;
            let slot = match row.rules >> 4 {
                1 => Some(cfa - 16),
                3 => Some(sp + 8),
                _ => None,
            };
            if let Some(slot) = slot {
                memory.insert(slot, regs.fp);
                regs.fp = cfa - 16;
            }
            (regs.ip, regs.sp) = (ip, sp);
        }
        (memory, regs)
    }

    /// The stack from an address to its top; unset words have an unused value.
    fn piece_of(memory: &BTreeMap<u64, u64>, from: u64) -> Box<Piece> {
        let mut piece = crate::piece::tests::empty();
        piece.fill(from, TOP, |to, len, at| {
            for (at, word) in (at..at + len).step_by(8).zip(to) {
                *word = memory.get(&at).copied().unwrap_or(u64::MAX);
            }
            true
        });
        piece
    }

    /// Walks with the previous walk, and returns how many steps were taken without it.
    fn walk(memory: &BTreeMap<u64, u64>, mut regs: UserRegs, last: &mut LastWalk) -> (Vec<u64>, usize) {
        let read = |at: u64| memory.get(&at).copied();
        let (mut among, mut caller, mut outer, mut steps) = (last.among(1, 1), 0, 0, 0);
        let mut passed = Vec::new();
        loop {
            let here = LastFrame {
                frame: regs.ip,
                sp: regs.sp,
                fp: regs.fp,
                caller,
                step: OPAQUE,
                ..LastFrame::default()
            };
            let inside = (0..among).filter(|number| last.frame(*number).sp < here.sp).count();
            assert_eq!(last.reached(here.sp, among), among - inside as u32);
            among -= inside as u32;
            let mut number = among.wrapping_sub(1);
            if among != 0 && last.frame(number).is_here(&here) {
                let piece = piece_of(memory, last.frame(number).sp);
                while number != 0 && last.expected(number).holds(read) {
                    assert_eq!(last.expected(number).differs(&piece), 0, "by a piece as by words");
                    number -= 1;
                }
                assert!(number == 0 || last.expected(number).differs(&piece) != 0);
                if number == 0 {
                    outer = among;
                    break;
                }
                among = number;
            }
            passed.push(here);
            steps += 1;
            match step(Arch::X86_64, row(regs.ip), &regs, read) {
                Ok((next, _)) => {
                    passed.last_mut().unwrap().step = step_of_row(Arch::X86_64, row(regs.ip), &regs, next.sp);
                    (regs, caller) = (next, 1);
                }
                Err(end) => {
                    assert_eq!(end, WalkEnd::Complete);
                    break;
                }
            }
        }
        for frame in passed.iter().rev() {
            last.put(outer, *frame);
            outer += 1;
        }
        (last.space, last.run, last.count) = (1, 1, u64::from(outer));
        let found: Vec<u64> = (0..outer).rev().map(|number| last.frame(number).frame).collect();
        let first = LAST_FRAMES - found.len();
        assert_eq!(last.pointers[first..], found);
        assert_eq!(last.outermost(outer), &raw const last.pointers[first]);
        (found, steps)
    }

    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    #[test]
    fn a_reused_walk_equals_a_full_walk() {
        let (mut state, mut last, mut functions) = (1, LastWalk::default(), Vec::new());
        let (mut all, mut taken) = (0, 0);
        for _ in 0..20_000 {
            // Mostly the inner frames change; occasionally a single one far outside, by one of the same size.
            let keep = match random(&mut state, 4) {
                0 => random(&mut state, functions.len() as u64 + 1) as usize,
                _ => functions.len().saturating_sub(random(&mut state, 4) as usize),
            };
            functions.truncate(keep);
            if random(&mut state, 8) == 0 && !functions.is_empty() {
                let changed = random(&mut state, functions.len() as u64) as usize;
                functions[changed] += 64;
            }
            while functions.len() < 200 && random(&mut state, 5) != 0 {
                functions.push(4 + random(&mut state, 64));
            }
            let (memory, regs) = build(&functions);
            let expected: Vec<u64> = functions.iter().rev().copied().chain([1]).collect();
            let (found, steps) = walk(&memory, regs, &mut last);
            assert_eq!(found, expected);
            (all, taken) = (all + expected.len(), taken + steps);
        }
        assert!(taken * 2 < all, "{taken} of {all} steps were taken");
    }

    #[test]
    fn walks_of_other_spaces_or_runs_are_not_reused() {
        let mut last = LastWalk::default();
        let (memory, regs) = build(&[4, 8, 12]);
        walk(&memory, regs, &mut last);
        assert_eq!((last.among(1, 1), last.among(2, 1), last.among(1, 2)), (4, 0, 0));
    }

    #[test]
    fn steps_that_read_more_than_two_words_are_opaque() {
        let regs = UserRegs {
            ip: 0,
            sp: 800,
            fp: 880,
            lr: 0,
        };
        let by = |cfa, fp, offset| step_of_row(Arch::X86_64, Row::new(0, cfa, 2, fp, offset, 0), &regs, 1000);
        assert_eq!(by(Cfa::Sp, Fp::Same, 0), 0);
        assert_eq!(by(Cfa::Fp, Fp::AtCfa, -2), 2);
        assert_eq!(by(Cfa::Sp, Fp::AtSp, 20), 5);
        assert_eq!(by(Cfa::Plt, Fp::AtFp, 10), 5);
        assert_eq!(by(Cfa::FarSp, Fp::AtCfa, -2), 2);
        for cfa in [Cfa::AtFp, Cfa::AtSp, Cfa::AtSpPlus8, Cfa::Signal, Cfa::Bx] {
            assert_eq!(by(cfa, Fp::Same, 0), OPAQUE);
        }
        assert_eq!(by(Cfa::Sp, Fp::AtCfa, 0), OPAQUE);
        let row = Row::new(0, Cfa::Fp, 2, Fp::AtCfa, -2, 2);
        assert_eq!(step_of_row(Arch::Aarch64, row, &regs, 1000), OPAQUE);
    }
}
