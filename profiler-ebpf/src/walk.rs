//! The walker: from registers along unwind tables to the thread's first frame, for every kind of event.
//!
//! A walk is a `bpf_loop` over [`next_frame`], so it returns to the program that asked for it, whatever its type. Its state is in
//! per-CPU memory, because a program's stack has 512 bytes. docs/unwinding.md tells the rules.

mod caller;
mod last;

pub use last::fill_outer;

use core::ffi::{c_long, c_void};
use core::hint::black_box;
use core::intrinsics::{AtomicOrdering, atomic_xadd, atomic_xchg};

use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_loop};
use profiler_common::known_ranges::KnownRanges;
use profiler_common::last_walk::{LAST_FRAMES, LastFrame, OPAQUE, within};
use profiler_common::memory::Block;
use profiler_common::space::CodeRange;
use profiler_common::stack::{INTERRUPTED, MAX_USER_FRAMES, StackHead, UserRegs};
use profiler_common::unwind::WalkEnd;

use self::caller::{GOES_ON, Next, caller};
use crate::lookup;
use crate::maps::{SPACES, SPACES_CHANGED, WALKS, config, volatile};

/// Walks that may be under way on one CPU: of a thread, of one that took the CPU from it, of an interrupt, of an interrupt that
/// can't be masked.
pub const WALKS_PER_CPU: u32 = 4;

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
    /// Those that it began with.
    leaf: UserRegs,
    /// Word of the space's run. It stays from walk to walk, with the next two.
    run: u64,
    /// The space.
    space: u64,
    /// Changes of spaces when its run was looked up; 0: none was.
    looked_up: u64,
    /// The address that no range covers; 0: none was met.
    unmapped: u64,
    /// Where `regs.ip` lies.
    range: CodeRange,
    /// The user memory that was read last, in this walk.
    block: Block,
    /// They stay from walk to walk.
    known_ranges: KnownRanges,
    /// Number of the thread's last walk in [`crate::maps::LAST_WALKS`]; [`last::NONE`].
    last: u32,
    /// Its outermost frames that this walk may still come to.
    among: u32,
    /// The frames of it that this walk would share, if it goes on as that one did; 0: they have not met.
    met: u32,
    /// The frame of it up to which it does.
    number: u32,
    /// Times that they may meet yet.
    tries: u32,
    /// Its outermost frames that are this walk's too, outside of those in `frames`.
    pub outer: u32,
    /// 1: that the walk is complete follows from its last frame's registers alone.
    sure: u32,
    /// The CPU that it is on.
    cpu: u32,
    /// What is remembered of the frames in `frames`.
    passed: [LastFrame; LAST_FRAMES],
    /// The record's head: `count`, `key` (so far) and `end` grow with the walk.
    pub head: StackHead,
    /// Behind the head without a gap: one record.
    pub frames: [u64; MAX_USER_FRAMES],
}

impl Walk {
    /// Its number on this CPU.
    #[inline(always)]
    pub const fn level(&self) -> u32 {
        self.level
    }
}

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
                let cpu = bpf_get_smp_processor_id();
                ((*walk).level, (*walk).cpu) = (level, cpu);
                (*walk).last = if level == 0 { last::of_thread(cpu) } else { last::NONE };
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
        (*walk).regs = regs;
        start(walk, space);
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
        if config!(walk) == 0 {
            // User space still has to learn of code that moved: it looks the leaf up.
            (*walk).unmapped = (*walk).regs.ip;
            (*walk).head.end = WalkEnd::NotWalked as u32;
            return WalkEnd::NotWalked as u32;
        }
        (*walk).leaf = (*walk).regs;
        let end = if let Some(end) = in_space(walk, &space) {
            end
        } else {
            (*walk).regs = (*walk).leaf;
            start(walk, space);
            keep(walk, (*walk).regs.ip);
            (*walk).last = last::NONE;
            (*walk).unmapped = (*walk).regs.ip;
            WalkEnd::NoSpace as u32
        };
        (*walk).head.end = end;
        last::finish(level, space);
        end
    }
}

/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn start(walk: *mut Walk, space: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        (*walk).caller = 0;
        (*walk).unmapped = 0;
        (*walk).head.count = 0;
        (*walk).head.key = space;
        ((*walk).among, (*walk).outer, (*walk).sure, (*walk).met) = (0, 0, 0, 0);
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
unsafe fn in_space(walk: *mut Walk, space: &u64) -> Option<u32> {
    // SAFETY: by this function's own condition. The loop gets its own variable.
    unsafe {
        let word = run_of(walk, space)?;
        last::open(walk, *space);
        (*walk).head.end = WalkEnd::Limit as u32;
        let mut level = (*walk).level;
        bpf_loop(
            MAX_USER_FRAMES as u32 + last::TURNS,
            next_frame as *mut c_void,
            (&raw mut level).cast(),
            0,
        );
        let is_same = spaces_changed() == (*walk).looked_up || *SPACES.get(space)? == word;
        is_same.then_some((*walk).head.end)
    }
}

/// The word of the run of `space`: mostly the one that this walk had the last time.
///
/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn run_of(walk: *mut Walk, space: &u64) -> Option<u64> {
    // SAFETY: by this function's own condition; user space replaces a run's number by an element of its own.
    unsafe {
        if (*walk).space == *space && (*walk).looked_up == spaces_changed() {
            return Some((*walk).run);
        }
        // With a barrier: a word that is older than the count would stay.
        let changed = atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(SPACES_CHANGED.get_ptr_mut(0)?, 0);
        let word = *SPACES.get(space)?;
        ((*walk).space, (*walk).run, (*walk).looked_up) = (*space, word, changed);
        Some(word)
    }
}

#[inline(always)]
fn spaces_changed() -> u64 {
    SPACES_CHANGED.get(0).map_or(0, volatile)
}

/// Keeps the frame that the walk is at, and goes to its caller. 1: the walk is over.
///
/// The kernel takes only a static function as a callback, so its name is mangled; scripts/build-ebpf takes the hash out.
unsafe extern "C" fn next_frame(_: u32, level: *mut c_void) -> c_long {
    // SAFETY: `in_space` passes its own variable.
    let Some(walk) = WALKS.get_ptr_mut(unsafe { *level.cast::<u32>() }) else {
        return 1;
    };
    // SAFETY: the walk under way on this CPU, of the program that called.
    unsafe {
        if (*walk).met != 0 {
            match last::goes_on((*walk).level) {
                last::UNDECIDED => return 0,
                last::JOINED => return 1,
                _ => {}
            }
        }
        let count = (*walk).head.count;
        if count as usize >= MAX_USER_FRAMES {
            return 1;
        }
        let interrupted = (*walk).caller == 0 && count > 0;
        let frame = (*walk).regs.ip | if interrupted { INTERRUPTED } else { 0 };
        if last::meets((*walk).level, frame) != 0 {
            // The compiler knows that it is 0 or 1, and the verifier does not.
            return c_long::from(black_box(last::is_same((*walk).level)) == last::JOINED);
        }
        if !lookup::range(
            &mut (*walk).range,
            &mut (*walk).known_ranges,
            (*walk).run,
            (*walk).regs.ip.wrapping_sub(u64::from((*walk).caller)),
        ) {
            no_mapping(walk, frame);
            return 1;
        }
        keep(walk, frame);
        let Next { regs, back, end, step } = caller(walk);
        if end != GOES_ON {
            (*walk).head.end = end;
            (*walk).sure = u32::from(step != OPAQUE);
            return 1;
        }
        (*walk).passed[within(count)].step = step;
        (*walk).regs = regs;
        (*walk).caller = back as u32;
    }
    0
}

/// The walk ends where no range covers the code: at the leaf itself, or at the frame before.
///
/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn no_mapping(walk: *mut Walk, frame: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        (*walk).unmapped = (*walk).regs.ip;
        (*walk).head.end = WalkEnd::NoMapping as u32;
        if (*walk).head.count == 0 {
            keep(walk, frame);
        } else {
            let before = &(*walk).passed[within((*walk).head.count - 1)];
            (*walk).regs = before.regs();
            (*walk).caller = before.caller;
        }
    }
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
        }
    }
}

/// Adds a frame to the hash of those outside of it, which [`crate::intern`] finishes: one multiplication, and a shift so that upper bits count too.
#[inline(always)]
pub fn absorb(hash: u64, frame: u64) -> u64 {
    let hash = (hash ^ frame).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 32)
}
