//! From a frame to its caller: by the row's step, the frame pointer's, or a guess, with the user memory that they read.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use profiler_common::call::{is_call, step_by_guess};
use profiler_common::last_walk::{OPAQUE, step_of_frame_pointer, step_of_row};
use profiler_common::space::{FRAME_POINTERS, TABLE};
use profiler_common::stack::UserRegs;
use profiler_common::unwind::{By, Cfa, WalkEnd, step, step_by_frame_pointer};

use super::{WALKS, Walk};
use crate::arch::{ARCH, machine};
use crate::lookup;

/// Frames outward of the leaf that a walk without frame pointers must have seen before it assumes that their chain ended.
const CHAIN: u32 = 2;

/// [`Next::end`]: there is a caller.
pub const GOES_ON: u32 = u32::MAX;

/// The result of a step, also in a [`Walk`]. All fields always have a value: the verifier rejects copying a register without one, as the
/// absent half of a `Result` may be.
#[derive(Clone, Copy)]
pub struct Next {
    /// The caller's registers.
    pub regs: UserRegs,
    /// 1: `regs.ip` is a return address.
    pub back: u64,
    /// [`GOES_ON`], or the [`WalkEnd`].
    pub end: u32,
    /// As `LastFrame::step`; for an end, 0 if it follows from the registers alone.
    pub step: u32,
}

impl Next {
    #[inline(always)]
    fn new(step: Result<(UserRegs, By), WalkEnd>) -> Self {
        match step {
            Ok((regs, by)) => Self {
                regs,
                back: u64::from(by == By::Call),
                end: GOES_ON,
                step: OPAQUE,
            },
            Err(end) => Self {
                regs: UserRegs::default(),
                back: 0,
                end: end as u32,
                step: OPAQUE,
            },
        }
    }

    #[inline(always)]
    fn by(self, step: u32) -> Self {
        Self { step, ..self }
    }
}

/// The registers of the caller of the walk's current frame.
///
/// # Safety
/// As [`user_stack`].
#[inline(always)]
pub unsafe fn caller(walk: *mut Walk) -> Next {
    // SAFETY: by this function's own condition.
    unsafe {
        if (*walk).range.unwinding == TABLE {
            by_table((*walk).level);
            return (*walk).next;
        }
        if (*walk).range.unwinding != FRAME_POINTERS {
            return Next::new(Err(WalkEnd::NoTable));
        }
        let regs = (*walk).regs;
        if regs.fp == 0 && (*walk).head.count >= CHAIN {
            return Next::new(Err(WalkEnd::Complete)).by(0);
        }
        let next = Next::new(step_by_frame_pointer(machine(), &regs, |at| word(walk, at)));
        let step = if next.end == GOES_ON {
            step_of_frame_pointer(ARCH)
        } else {
            OPAQUE
        };
        next.by(step)
    }
}

/// Steps by the table's row from the current frame of the walk of this number: [`Walk::next`]. The return value has no meaning.
///
/// Exported, so that the verifier checks it once: within the loop over frames 7.2 followed it several times.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn by_table(level: u32) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else {
        return 0;
    };
    // SAFETY: this CPU's walk, of the program that called.
    unsafe {
        let (regs, back) = ((*walk).regs, u64::from((*walk).caller));
        let row = lookup::row(&(*walk).range, regs.ip.wrapping_sub(back));
        let next = Next::new(step(machine(), row, &regs, |at| word(walk, at)));
        if next.end == WalkEnd::NoRow as u32 {
            let leaf = back == 0 && (*walk).head.count == 1;
            guess(level, u32::from(leaf));
            // Outward of the leaf a guess is a step by the frame pointer; the code that confirms it stays as it is.
            if (*walk).next.end == GOES_ON && !leaf {
                (*walk).next.step = step_of_frame_pointer(ARCH);
            }
            return 0;
        }
        let step = match next.end {
            GOES_ON => step_of_row(ARCH, row, &regs, next.regs.sp),
            _ if row.rules & 15 == Cfa::Outermost as u8 => 0,
            _ => OPAQUE,
        };
        (*walk).next = next.by(step);
    }
    0
}

/// Guesses the caller of the current frame of the walk of this number: [`Walk::next`]. The return value has no meaning.
///
/// Exported, so that the verifier checks it once, and not with each path that leads to a frame without a row.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn guess(level: u32, leaf: u32) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else {
        return 0;
    };
    // SAFETY: this CPU's walk, of the program that called.
    unsafe {
        let regs = (*walk).regs;
        (*walk).next = Next::new(step_by_guess(
            machine(),
            &regs,
            leaf != 0,
            |at| word(walk, at),
            |code| ends_with_call(code) != 0,
        ));
    }
    0
}

/// 1: the eight bytes of `code` end with a call.
///
/// Exported, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ends_with_call(code: u64) -> u32 {
    u32::from(is_call(ARCH, code))
}

/// A word of user memory, from the walk's block.
///
/// # Safety
/// As [`user_stack`].
#[inline(always)]
pub unsafe fn word(walk: *mut Walk, at: u64) -> Option<u64> {
    // SAFETY: by this function's own condition.
    unsafe {
        if !(*walk).block.holds(at) && fetch((*walk).level, at) == 0 {
            return None;
        }
        Some((*walk).block.word(at))
    }
}

/// Reads the block of a word for the walk of this number. 0: it can't be read.
///
/// Exported, so that the verifier checks it once, and not at each place that reads a word.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn fetch(level: u32, at: u64) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else {
        return 0;
    };
    // SAFETY: this CPU's walk, of the program that called; the helper writes what fits, and refuses user addresses
    // that can't be read.
    unsafe {
        let read = |to: &mut [u64; _], len: u64, at: u64| {
            bpf_probe_read_user(to.as_mut_ptr().cast(), len as u32, at as *const c_void) == 0
        };
        u32::from((*walk).block.fetch(at, read))
    }
}
