//! The walker: from registers along unwind tables to the thread's first frame, for every kind of event.
//!
//! A walk is a `bpf_loop` over [`next_frame`], so it returns to the calling program, whatever its type. Its state is in
//! per-CPU memory, because a program's stack has 512 bytes. docs/unwinding.md has the rules.

mod caller;
mod last;

pub use last::fill_outer;

use core::ffi::{c_long, c_void};
use core::hint::black_box;
use core::intrinsics::{AtomicOrdering, atomic_xadd, atomic_xchg};

use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_loop};
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use profiler_common::known_ranges::KnownRanges;
use profiler_common::last_walk::{LAST_FRAMES, LastFrame, OPAQUE, within};
use profiler_common::memory::Block;
use profiler_common::space::CodeRange;
use profiler_common::stack::{INTERRUPTED, MAX_USER_FRAMES, StackHead, UserRegs};
use profiler_common::unwind::WalkEnd;

use self::caller::{GOES_ON, Next, caller};
use crate::lookup;
use crate::maps::{SPACES, SPACES_CHANGED, config, volatile};

/// Walks that may be under way on one CPU: of a thread, of one that preempted it, of an interrupt, of a non-maskable
/// interrupt.
pub const WALKS_PER_CPU: u32 = 4;

/// The walks under way on this CPU.
#[map]
pub static WALKS: PerCpuArray<Walk> = PerCpuArray::with_max_entries(WALKS_PER_CPU, 0);

/// A walk, and the record built from it.
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
    /// The registers at which the walk began.
    leaf: UserRegs,
    /// Word of the space's run. It is kept from walk to walk, as the next two are.
    run: u64,
    /// The address space.
    space: u64,
    /// Changes of spaces when its run was looked up; 0: it was not.
    looked_up: u64,
    /// The address that no range covers; 0: there was none.
    unmapped: u64,
    /// The range that covers `regs.ip`.
    range: CodeRange,
    /// What [`caller`] found in another function.
    next: Next,
    /// The user memory that this walk read last.
    block: Block,
    /// Ranges that were found, kept from walk to walk.
    known_ranges: KnownRanges,
    /// Number of the thread's last walk in [`crate::maps::LAST_WALKS`]; [`last::NONE`].
    last: u32,
    /// The last walk's outermost frames that this walk may still reach.
    among: u32,
    /// The last walk's frames that this one would share if it continues the same way; 0: they have not met.
    met: u32,
    /// The last walk's frame up to which they are the same.
    number: u32,
    /// How often they may still meet.
    tries: u32,
    /// The last walk's outermost frames that are also this walk's, outward of those in `frames`.
    pub outer: u32,
    /// 1: the last frame's registers alone prove that the walk is complete.
    sure: u32,
    /// The CPU of this walk.
    cpu: u32,
    /// What is remembered of the frames in `frames`.
    passed: [LastFrame; LAST_FRAMES],
    /// The record's head: `count`, `key` (so far) and `end` grow with the walk.
    pub head: StackHead,
    /// Behind the head without a gap: both are one record.
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
    /// Number of a [`WalkEnd`]: a table of them would be one more bound for the verifier to check.
    pub end: u32,
    /// Registers of the last frame.
    pub regs: UserRegs,
    /// Whether they are a caller's.
    pub caller: bool,
    /// The address that no range covers; 0: there was none.
    pub unmapped: u64,
}

/// Takes a free walk of this CPU; `None`: all are in use by programs that this one interrupted or preempted.
#[inline(always)]
pub fn acquire() -> Option<*mut Walk> {
    WALKS.get_ptr_mut(take())
}

/// The number of a free walk of this CPU, which is taken now; [`WALKS_PER_CPU`]: there is none.
///
/// Exported, so that programs with many walks look for one in a single place.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn take() -> u32 {
    for level in 0..WALKS_PER_CPU {
        let Some(walk) = WALKS.get_ptr_mut(level) else { break };
        // SAFETY: this CPU's own memory; a program stays on its CPU to its end. One instruction: a program that may be preempted
        // could lose the CPU to one of another thread between a load and a store, and both would have the same walk.
        if unsafe { atomic_xchg::<u64, { AtomicOrdering::SeqCst }>(&raw mut (*walk).busy, 1) } == 0 {
            // SAFETY: the walk is ours.
            unsafe {
                let cpu = bpf_get_smp_processor_id();
                ((*walk).level, (*walk).cpu) = (level, cpu);
                (*walk).last = if level == 0 { last::of_thread(cpu) } else { last::NONE };
            }
            return level;
        }
    }
    WALKS_PER_CPU
}

/// Gives a walk back.
///
/// # Safety
/// `walk` must come from [`acquire`].
#[inline(always)]
pub unsafe fn release(walk: *mut Walk) {
    // SAFETY: by this function's own condition. While it is taken, other programs store only the value that it already has.
    unsafe { core::ptr::write_volatile(&raw mut (*walk).busy, 0) };
}

/// Walks from `regs` outward in the address space `space`. Afterwards the walk's record has the frames, their count, their
/// hash and the end.
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

/// Runs the walk of this number from the registers in it. Returns the number of the [`WalkEnd`].
///
/// Exported, so that the verifier checks it once rather than with each path of each program to each place that starts a walk.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn walk_user_stack(level: u32, space: u64) -> u32 {
    let Some(walk) = WALKS.get_ptr_mut(level) else {
        return WalkEnd::NotWalked as u32;
    };
    // SAFETY: this CPU's walk, of the program that called.
    unsafe {
        if config!(walk) == 0 {
            // User space still has to learn of code that moved: it looks up the leaf.
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

/// Walks by the run of `space`. `None`: there is none, or it was replaced since the walk began; a program that was preempted for
/// long may have read ranges that belong to another space by now.
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

/// The word of the run of `space`: usually the one that this walk used last time.
///
/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn run_of(walk: *mut Walk, space: &u64) -> Option<u64> {
    // SAFETY: by this function's own condition; user space replaces a run's number by writing another element.
    unsafe {
        if (*walk).space == *space && (*walk).looked_up == spaces_changed() {
            return Some((*walk).run);
        }
        // With a barrier: otherwise a word older than the count would be kept.
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

/// Keeps the walk's current frame, and moves to its caller. 1: the walk has ended.
///
/// The kernel accepts only a static function as a callback, so its name is mangled; scripts/build-ebpf removes the hash.
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
            // The compiler knows that it is 0 or 1; the verifier does not.
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

/// Ends the walk where no range covers the code: at the leaf itself, or at the frame before.
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
