//! The walker: from registers along unwind tables to the thread's first frame, for every kind of event.
//!
//! A walk is a `bpf_loop` over [`next_frame`], so it returns to the program that asked for it, whatever its type. Its state is in
//! per-CPU memory, because a program's stack has 512 bytes. docs/unwinding.md tells the rules.

use core::ffi::{c_long, c_void};
use core::intrinsics::{AtomicOrdering, atomic_xchg};

use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_loop, bpf_probe_read_user};
use profiler_common::call::step_by_guess;
use profiler_common::known_ranges::KnownRanges;
use profiler_common::known_rows::KNOWN_ROWS;
use profiler_common::memory::Block;
use profiler_common::space::{CodeRange, FRAME_POINTERS, TABLE};
use profiler_common::stack::{INTERRUPTED, MAX_USER_FRAMES, StackHead, UserRegs};
use profiler_common::unwind::{Arch, By, WalkEnd, step, step_by_frame_pointer};

use crate::lookup;
use crate::maps::{SPACES, WALKS, config};

const ARCH: Arch = Arch::X86_64;
/// Walks that may be under way on one CPU: of a thread, of one that took the CPU from it, of an interrupt, of an interrupt that
/// can't be masked.
pub const WALKS_PER_CPU: u32 = 4;
/// Frames behind the leaf that a walk without frame pointers must have seen before it believes that their chain ended.
const CHAIN: u32 = 2;

/// A walk, and the record that it becomes.
#[repr(C)]
pub struct Walk {
    /// 0: free; 1: taken.
    busy: u64,
    /// Its number on this CPU.
    level: u32,
    /// 1: `regs.ip` is a return address.
    caller: u32,
    /// Registers of the last frame that was kept.
    regs: UserRegs,
    /// Word of the space's run.
    run: u64,
    /// The address that no range covers; 0: none was met.
    unmapped: u64,
    /// Where `regs.ip` lies.
    range: CodeRange,
    /// The user memory that was read last, in this walk.
    block: Block,
    /// They stay from walk to walk.
    known_ranges: KnownRanges,
    /// Where the rows that this CPU remembers begin; [`NO_KNOWN_ROWS`] for walks that interrupt another.
    known_rows: u64,
    /// The record's head: `count`, `key` (so far) and `end` grow with the walk.
    pub head: StackHead,
    /// Behind the head without a gap: one record.
    pub frames: [u64; MAX_USER_FRAMES],
}

/// [`Walk::known_rows`]: they are in use.
const NO_KNOWN_ROWS: u64 = u64::MAX;

/// Where a walk ended.
pub struct Walked {
    /// Number of a [`WalkEnd`]: a table of them would be one more bound for the verifier to see.
    pub end: u32,
    /// Registers of its last frame.
    pub regs: UserRegs,
    /// They are a caller's.
    pub caller: bool,
    /// The address that no range covers; 0: none was met.
    pub unmapped: u64,
}

/// A free walk of this CPU, taken; `None`: all are in use by programs that this one interrupted, or took the CPU from.
#[inline(always)]
pub fn acquire() -> Option<*mut Walk> {
    for level in 0..WALKS_PER_CPU {
        let walk = WALKS.get_ptr_mut(level)?;
        // SAFETY: this CPU's own memory, which a program stays on to its end. In one instruction: a program that may be preempted
        // could lose the CPU to one of another thread between a look and a store, and both would have the same walk.
        if unsafe { atomic_xchg::<u64, { AtomicOrdering::SeqCst }>(&raw mut (*walk).busy, 1) } == 0 {
            // SAFETY: the walk is ours.
            unsafe {
                (*walk).level = level;
                (*walk).known_rows = if level == 0 {
                    u64::from(bpf_get_smp_processor_id()) * u64::from(KNOWN_ROWS)
                } else {
                    NO_KNOWN_ROWS
                };
            }
            return Some(walk);
        }
    }
    None
}

/// Gives a walk back.
///
/// # Safety
/// `walk` must come from [`acquire`].
#[inline(always)]
pub unsafe fn release(walk: *mut Walk) {
    // SAFETY: by this function's own condition. Nobody else stores to it while it is taken but what it holds already.
    unsafe { core::ptr::write_volatile(&raw mut (*walk).busy, 0) };
}

/// Walks from `regs` outward in the address space `space`. The frames, their count, their hash and the end are in the walk's
/// record then.
///
/// # Safety
/// `walk` must come from [`acquire`].
#[inline(always)]
pub unsafe fn user_stack(walk: *mut Walk, space: u64, regs: UserRegs) -> Walked {
    // SAFETY: by this function's own condition; only this program uses the walk.
    unsafe {
        start(walk, space, regs);
        Walked {
            end: walk_user_stack((*walk).level, space),
            regs: (*walk).regs,
            caller: (*walk).caller != 0,
            unmapped: (*walk).unmapped,
        }
    }
}

/// The walk of this number, from the registers in it. The [`WalkEnd`]'s number.
///
/// Exported, so that the verifier looks at it once, and not with each path of each program to each place that asks for a walk.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn walk_user_stack(level: u32, space: u64) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else {
        return WalkEnd::NotWalked as u32;
    };
    // SAFETY: this CPU's walk, of the program that called.
    unsafe {
        let regs = (*walk).regs;
        let end = if config!(walk) == 0 {
            // User space still has to learn of code that moved: it looks the leaf up.
            (*walk).unmapped = regs.ip;
            WalkEnd::NotWalked
        } else if let Some(end) = in_space(walk, space) {
            end
        } else {
            start(walk, space, regs);
            keep(walk, regs.ip);
            (*walk).unmapped = regs.ip;
            WalkEnd::NoSpace
        };
        (*walk).head.end = end as u32;
        end as u32
    }
}

/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn start(walk: *mut Walk, space: u64, regs: UserRegs) {
    // SAFETY: by this function's own condition.
    unsafe {
        (*walk).regs = regs;
        (*walk).caller = 0;
        (*walk).unmapped = 0;
        (*walk).head.count = 0;
        (*walk).head.key = space;
        (*walk).range.start = 1;
        (*walk).range.end = 0;
        (*walk).block.forget();
    }
}

/// Walks by the run of `space`. `None`: there is none, or another one since the walk began; a program that was preempted for long
/// may have looked at ranges that belong to another space by now.
///
/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn in_space(walk: *mut Walk, space: u64) -> Option<WalkEnd> {
    // SAFETY: by this function's own condition; user space replaces a run's number by an element of its own.
    unsafe {
        let word = *SPACES.get(&space)?;
        (*walk).run = word;
        let end = from_leaf(walk);
        (*SPACES.get(&space)? == word).then_some(end)
    }
}

/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn from_leaf(walk: *mut Walk) -> WalkEnd {
    // SAFETY: by this function's own condition.
    unsafe {
        if !lookup::range(
            &mut (*walk).range,
            &mut (*walk).known_ranges,
            (*walk).run,
            (*walk).regs.ip,
        ) {
            keep(walk, (*walk).regs.ip);
            (*walk).unmapped = (*walk).regs.ip;
            return WalkEnd::NoMapping;
        }
        (*walk).head.end = WalkEnd::Limit as u32;
        let mut level = (*walk).level;
        bpf_loop(
            MAX_USER_FRAMES as u32,
            next_frame as *mut c_void,
            (&raw mut level).cast(),
            0,
        );
        WalkEnd::from_number((*walk).head.end as u8).unwrap_or(WalkEnd::BadChain)
    }
}

/// Keeps the frame that the walk is at, and goes to its caller. 1: the walk is over.
///
/// The kernel takes only a static function as a callback, so its name is mangled; scripts/build-ebpf takes the hash out.
unsafe extern "C" fn next_frame(_: u32, level: *mut c_void) -> c_long {
    // SAFETY: `from_leaf` passes its own variable.
    let Some(walk) = WALKS.get_ptr_mut(unsafe { *level.cast::<u32>() }) else {
        return 1;
    };
    // SAFETY: the walk under way on this CPU, of the program that called.
    unsafe {
        let interrupted = (*walk).caller == 0 && (*walk).head.count > 0;
        keep(walk, (*walk).regs.ip | if interrupted { INTERRUPTED } else { 0 });
        let Next { regs, back, end } = caller(walk);
        if end != GOES_ON {
            (*walk).head.end = end;
            return 1;
        }
        if lookup::range(
            &mut (*walk).range,
            &mut (*walk).known_ranges,
            (*walk).run,
            regs.ip.wrapping_sub(back),
        ) {
            (*walk).regs = regs;
            (*walk).caller = back as u32;
            return 0;
        }
        (*walk).unmapped = regs.ip;
        (*walk).head.end = WalkEnd::NoMapping as u32;
    }
    1
}

/// Adds a frame to the record.
///
/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn keep(walk: *mut Walk, frame: u64) {
    // SAFETY: by this function's own condition; the index is within the array.
    unsafe {
        let count = (*walk).head.count as usize;
        if count < MAX_USER_FRAMES {
            (&raw mut (*walk).frames).cast::<u64>().add(count).write(frame);
            (*walk).head.count = count as u32 + 1;
            (*walk).head.key = absorb((*walk).head.key, frame);
        }
    }
}

/// Adds a frame to a hash that [`crate::intern`] finishes: one multiplication, and a shift so that upper bits count too.
#[inline(always)]
pub fn absorb(hash: u64, frame: u64) -> u64 {
    let hash = (hash ^ frame).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 32)
}

/// [`Next::end`]: there is a caller.
const GOES_ON: u32 = u32::MAX;

/// Where a step led. All of it always has a value: the verifier refuses to see a register copied that has none, as the
/// absent half of a `Result` may be.
struct Next {
    regs: UserRegs,
    /// 1: `regs.ip` is a return address.
    back: u64,
    /// [`GOES_ON`], or the [`WalkEnd`].
    end: u32,
}

impl Next {
    #[inline(always)]
    fn new(step: Result<(UserRegs, By), WalkEnd>) -> Self {
        match step {
            Ok((regs, by)) => Self {
                regs,
                back: u64::from(by == By::Call),
                end: GOES_ON,
            },
            Err(end) => Self {
                regs: UserRegs::default(),
                back: 0,
                end: end as u32,
            },
        }
    }
}

/// The registers of the caller of the frame that the walk is at.
///
/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn caller(walk: *mut Walk) -> Next {
    // SAFETY: by this function's own condition.
    let (regs, range, back, count) = unsafe {
        (
            (*walk).regs,
            &(*walk).range,
            u64::from((*walk).caller),
            (*walk).head.count,
        )
    };
    // SAFETY: by this function's own condition.
    let read = move |at| unsafe { word(walk, at) };
    if range.unwinding == TABLE {
        // SAFETY: by this function's own condition.
        let first = unsafe { (*walk).known_rows };
        let known = (first != NO_KNOWN_ROWS).then_some(first as u32);
        let row = lookup::row(known, range, regs.ip.wrapping_sub(back));
        let next = Next::new(step(ARCH, row, &regs, read));
        if next.end == WalkEnd::NoRow as u32 {
            return Next::new(step_by_guess(ARCH, &regs, back == 0 && count == 1, read));
        }
        next
    } else if range.unwinding == FRAME_POINTERS {
        if regs.fp == 0 && count >= CHAIN {
            return Next::new(Err(WalkEnd::Complete));
        }
        Next::new(step_by_frame_pointer(ARCH, &regs, read))
    } else {
        Next::new(Err(WalkEnd::NoTable))
    }
}

/// A word of user memory.
///
/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn word(walk: *mut Walk, at: u64) -> Option<u64> {
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
/// Exported, so that the verifier looks at it once, and not at each place that asks for a word.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn fetch(level: u32, at: u64) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else {
        return 0;
    };
    // SAFETY: this CPU's walk, of the program that called; the helper writes what there is room for, and refuses user addresses
    // that can't be read.
    unsafe {
        let read = |to: &mut [u64], at| {
            bpf_probe_read_user(to.as_mut_ptr().cast(), size_of_val(to) as u32, at as *const c_void) == 0
        };
        u32::from((*walk).block.fetch(at, read))
    }
}
