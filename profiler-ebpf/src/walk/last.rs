//! Compares a walk with the previous one of its thread: [`profiler_common::last_walk`] describes what is compared.
//!
//! Only walks that interrupt no other use what their CPU remembers, so no other walk uses it meanwhile.

use core::ffi::{c_long, c_void};

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{bpf_loop, bpf_probe_read_kernel, bpf_probe_read_user};
use profiler_common::last_walk::{LAST_FRAMES, LAST_WALKS, LastFrame, LastWalk, OPAQUE, within};
use profiler_common::piece::WORDS;
use profiler_common::stack::{MAX_USER_FRAMES, absorb};
use profiler_common::unwind::WalkEnd;

use super::caller::word;
use super::{WALKS, Walk};
use crate::arch::{ARCH, machine};
use crate::maps::{LAST_WALKS as LAST, PIECES, volatile};

/// [`Walk::last`]: this walk interrupts another.
pub const NONE: u32 = u32::MAX;
/// Frames that one turn of the loop compares: a turn itself costs as much as one or two frames.
const AT_ONCE: u32 = 8;
/// Frames that one turn of the loop compares within a piece.
const OF_A_PIECE: u32 = 32;
/// Turns that the comparison by pieces may take; the rest is compared frame by frame.
const PIECE_TURNS: u32 = 2 * LAST_FRAMES as u32 / OF_A_PIECE;
/// A walk deeper than this when it meets the last one continues by itself. Otherwise all frames of that one fit behind its own.
const DEEPEST: u32 = (MAX_USER_FRAMES - LAST_FRAMES) as u32;
/// How often a walk may meet the last one and part from it again.
const TRIES: u32 = 8;
/// Turns of the loop that the comparison may take.
pub const TURNS: u32 = TRIES * (LAST_FRAMES as u32 / AT_ONCE + 1);

/// The index of what this CPU remembers of the current thread.
#[inline(always)]
pub fn of_thread(cpu: u32) -> u32 {
    cpu * LAST_WALKS + (bpf_get_current_pid_tgid() as u32 & (LAST_WALKS - 1))
}

/// # Safety
/// `walk` must come from [`super::acquire`].
#[inline(always)]
unsafe fn remembered(walk: *const Walk) -> Option<*mut LastWalk> {
    // SAFETY: by this function's own condition.
    LAST.get_ptr_mut(unsafe { (*walk).last })
}

/// Begins the walk in the address space `space`, with the walk's own run.
///
/// # Safety
/// As [`remembered`].
#[inline(always)]
pub unsafe fn open(walk: *mut Walk, space: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        if let Some(last) = remembered(walk) {
            ((*walk).among, (*walk).tries) = ((*last).among(space, (*walk).run), TRIES);
        }
    }
}

/// Remembers `frame`, which the walk of this number has reached. 1: the last walk reached it too, and [`goes_on`] decides whether both are the
/// same from here outward.
///
/// Exported, as `fetch`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn meets(level: u32, frame: u64) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else { return 0 };
    // SAFETY: the walk under way on this CPU, of the program that called; the index is within the array.
    unsafe {
        let count = (*walk).head.count;
        let here = (&raw mut (*walk).passed).cast::<LastFrame>().add(within(count));
        let regs = (*walk).regs;
        *here = LastFrame {
            frame,
            sp: regs.sp,
            fp: regs.fp,
            lr: regs.lr,
            key: 0,
            caller: (*walk).caller,
            step: OPAQUE,
        };
        if (*walk).among == 0 || count > DEEPEST {
            return 0;
        }
        let Some(last) = remembered(walk) else { return 0 };
        let among = (*last).reached(regs.sp, (*walk).among);
        (*walk).among = among;
        let number = among.wrapping_sub(1);
        // A frame alone does not prove that the chain of frame pointers ends.
        if among == 0 || number.wrapping_add(count) == 0 || !(*last).frame(number).is_here(&*here) {
            return 0;
        }
        ((*walk).met, (*walk).number) = (among, number);
        1
    }
}

/// [`goes_on`]: nothing is decided yet.
pub const UNDECIDED: u32 = 0;
/// Outward from where they met, this walk is the same as the last one, to its end; the registers are those of the outermost frame then.
pub const JOINED: u32 = 1;
/// The walks part: this one continues by itself.
pub const PARTED: u32 = 2;

/// Compares some more steps of the last walk, outward from where the walk of this number met it.
///
/// Exported, as `fetch`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn goes_on(level: u32) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else {
        return PARTED;
    };
    // SAFETY: as in `meets`.
    unsafe {
        let Some(last) = remembered(walk) else { return PARTED };
        for _ in 0..AT_ONCE {
            let number = (*walk).number;
            if number == 0 {
                return join(walk, last);
            }
            if !(*last).expected(number).holds(machine(), |at| word(walk, at)) {
                // Frames further out may be the same all the same. Not forever: the loop's turns are limited.
                (*walk).tries = (*walk).tries.wrapping_sub(1);
                (*walk).among = if (*walk).tries == 0 { 0 } else { number };
                (*walk).met = 0;
                return PARTED;
            }
            (*walk).number = number - 1;
        }
    }
    UNDECIDED
}

/// Ends the walk as the last one, outward from where they met.
///
/// # Safety
/// Both must be of the walk under way.
#[inline(always)]
unsafe fn join(walk: *mut Walk, last: *const LastWalk) -> u32 {
    // SAFETY: by this function's own condition.
    unsafe {
        (*walk).outer = (*walk).met;
        (*walk).regs = (*last).frame(0).regs();
        (*walk).caller = (*last).frame(0).caller;
        (*walk).head.end = WalkEnd::Complete as u32;
    }
    JOINED
}

/// [`goes_on`] for many frames at once: by pieces of the stack. [`JOINED`], or [`UNDECIDED`], whatever the reason: frames found the same so far
/// are not compared again.
///
/// Exported, as `fetch`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn is_same(level: u32) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else {
        return UNDECIDED;
    };
    // SAFETY: as in `meets`; the loop gets its own variable.
    unsafe {
        // These few are in the block that was read last.
        if (*walk).number <= AT_ONCE {
            return UNDECIDED;
        }
        let (Some(last), Some(piece)) = (remembered(walk), PIECES.get_ptr_mut((*walk).cpu)) else {
            return UNDECIDED;
        };
        (*piece).forget();
        let mut level = level;
        bpf_loop(PIECE_TURNS, compare_some as *mut c_void, (&raw mut level).cast(), 0);
        if (*walk).number == 0 {
            join(walk, last)
        } else {
            UNDECIDED
        }
    }
}

unsafe extern "C" fn compare_some(_: u32, level: *mut c_void) -> c_long {
    // SAFETY: `is_same` passes its own variable, and the walk is under way on this CPU.
    unsafe {
        let Some(walk) = WALKS.get_ptr_mut(*level.cast::<u32>()) else {
            return 1;
        };
        let (Some(last), Some(piece)) = (remembered(walk), PIECES.get_ptr_mut((*walk).cpu)) else {
            return 1;
        };
        let mut number = (*walk).number;
        let next = (*last).frame(number.wrapping_sub(1)).sp;
        if !(*piece).reaches(next) {
            let read = |to: &mut [u64; WORDS], len: u64, at: u64| {
                bpf_probe_read_user(to.as_mut_ptr().cast(), len as u32, at as *const c_void) == 0
            };
            let is_read = (*piece).fill((*last).frame(number).sp, (*last).frame(0).sp, read);
            // A frame larger than a piece can't be compared here.
            if !is_read || !(*piece).reaches(next) {
                return 1;
            }
        }
        let mut differs = 0;
        for _ in 0..OF_A_PIECE {
            if number == 0 {
                break;
            }
            let expected = (*last).expected(number);
            if !(*piece).reaches(expected.end()) {
                break;
            }
            differs |= expected.differs(machine(), &*piece);
            number -= 1;
        }
        if differs != 0 {
            return 1;
        }
        (*walk).number = number;
        c_long::from(number == 0)
    }
}

/// The state of a loop over the frames of a walk.
#[repr(C)]
struct Turn {
    level: u32,
    /// Frame of the last walk.
    number: u32,
    /// Frames of this walk that remain.
    left: u32,
    /// 1: remember the frames.
    keep: u32,
    key: u64,
}

/// Finishes the walk of this number: computes its key, from the outermost frame inward, so the part shared with the last walk already has its own, and
/// remembers the walk if it is complete. The return value has no meaning.
///
/// Exported, as `fetch`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn finish(level: u32, space: u64) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else { return 0 };
    // SAFETY: the walk under way on this CPU, of the program that called; the loop gets its own variable.
    unsafe {
        let (count, outer) = ((*walk).head.count, (*walk).outer);
        let sure = outer != 0 || ((*walk).sure != 0 && (*walk).head.end == WalkEnd::Complete as u32);
        let mut turn = Turn {
            level,
            number: outer,
            left: count,
            keep: 0,
            key: space,
        };
        if let Some(last) = remembered(walk) {
            if outer != 0 {
                turn.key = (*last).frame(outer - 1).key;
            }
            if sure && count + outer <= LAST_FRAMES as u32 {
                turn.keep = 1;
                ((*last).space, (*last).run) = (space, (*walk).run);
                (*last).count = u64::from(count + outer);
            }
        }
        bpf_loop(
            MAX_USER_FRAMES as u32,
            finish_some as *mut c_void,
            (&raw mut turn).cast(),
            0,
        );
        (*walk).head.key = turn.key;
    }
    0
}

unsafe extern "C" fn finish_some(_: u32, turn: *mut c_void) -> c_long {
    // SAFETY: `finish` passes its own variable, and the walk is under way on this CPU; indices are within the arrays.
    unsafe {
        let turn = turn.cast::<Turn>();
        let Some(walk) = WALKS.get_ptr_mut((*turn).level) else {
            return 1;
        };
        if (*turn).left == 0 {
            return 1;
        }
        (*turn).left -= 1;
        let index = (*turn).left as usize;
        let frame = (&raw const (*walk).frames)
            .cast::<u64>()
            .add(index & (MAX_USER_FRAMES - 1))
            .read();
        let key = absorb((*turn).key, frame);
        (*turn).key = key;
        if (*turn).keep != 0 {
            let Some(last) = remembered(walk) else { return 1 };
            let from = (&raw const (*walk).passed).cast::<LastFrame>();
            let mut frame = from.add(within(index as u32)).read();
            frame.key = key;
            (*last).put(ARCH, (*turn).number, frame);
        }
        // Even when it is not used: otherwise the verifier would follow each path to each number.
        (*turn).number += 1;
    }
    0
}

/// Puts the outer frames that the walk of this number shares with the last one behind its own, to be sent. The return value has no meaning.
///
/// Exported, as `fetch`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn fill_outer(level: u32) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else { return 0 };
    // SAFETY: as in `finish`; both numbers are within the array's capacity.
    unsafe {
        let Some(last) = remembered(walk) else { return 0 };
        let count = volatile(&(*walk).head.count).min(DEEPEST);
        let outer = volatile(&(*walk).outer).min(LAST_FRAMES as u32);
        let to = (&raw mut (*walk).frames).cast::<u64>().add(count as usize);
        bpf_probe_read_kernel(to.cast(), outer * 8, (*last).outermost(outer).cast());
        (*walk).head.count = count + outer;
        (*walk).outer = 0;
    }
    0
}
