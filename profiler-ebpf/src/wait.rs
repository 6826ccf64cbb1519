//! Waits of recorded threads: what is known at the switch-out, which thread wakes, and the record at the switch-in.
//!
//! Walking the stacks of a wait costs about a microsecond, as much as a short wait itself. Up to `wait_burst` (of the configuration) of a thread's waits are
//! walked, and one more every [`REFILL`] ns (fewer while the recording costs too much); the others reuse the stacks of the last wait with the same registers, and the short ones among them
//! are aggregated and sent together.

mod asleep;
mod contention;
pub mod missed;
mod sent;
mod sites;
mod waking;

pub use sent::tell_merged;

use core::ffi::c_void;
use core::hint::black_box;

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_probe_read_user_str;
use profiler_common::config::{CALL_WORDS, CallSet};
use profiler_common::scope::ThreadState;
use profiler_common::switch::{
    CALL_I386, CallPath, NO_PRIORITY, PATH_LEN, StackAheadHead, ThreadWaits, WAIT_BIRTH, WAIT_BY_INTERRUPT,
    WAIT_HAS_FILE, WAIT_IN_CALL, WAIT_IN_FAULT, WAIT_IO, WAIT_LIKE_EARLIER, WAIT_PREEMPTED, WAIT_THROTTLED,
    WAIT_UNSEEN_START, WAIT_WAKER_UNSURE, WAIT_WOKEN, WaitBody,
};
use profiler_common::thinning::Group;
use profiler_common::{Loss, RecordKind};

use crate::copy::Captured;
use crate::cpu;
use crate::emit::{self, At, lose};
use crate::kernel::Task;
use crate::maps::{CONFIG, config, volatile};
use crate::stack;
use crate::{fault, names, scope, thinning};

/// Time after which one more wait is walked, in ns.
const REFILL: u64 = 250_000;
/// Beyond that, waits shorter than this are aggregated, in ns.
const SHORT: u64 = 100_000;
/// How often aggregated waits are sent, in ns.
const TOLD_EVERY: u64 = 10_000_000;

/// Begins the wait of a new thread for its first CPU.
///
/// # Safety
/// `state` must be its entry.
#[inline(always)]
pub unsafe fn born(state: *mut ThreadState) {
    // SAFETY: the thread has not run yet, so no other program has its entry.
    unsafe {
        let waits = &raw mut (*state).waits;
        (*waits).seen = 1;
        (*waits).now.out = (*state).since;
        (*waits).now.count = 1;
        (*waits).now.flags = WAIT_PREEMPTED | WAIT_BIRTH;
    }
}

/// Begins the wait of the current thread, which is switched out.
///
/// # Safety
/// `state` must be the current thread's.
#[inline(always)]
pub unsafe fn switched_out(ctx: &impl EbpfContext, state: *mut ThreadState, task: Task, at: At, preempted: bool) {
    // SAFETY: by this function's own condition.
    unsafe {
        let waits = &raw mut (*state).waits;
        missed::at_switch_out(waits, task);
        let in_fault = fault::is_open(&(*state).faults.inner);
        let call = task.call();
        let mut flags = if !preempted && !task.is_runnable() {
            0
        } else if task.is_throttled() {
            WAIT_PREEMPTED | WAIT_THROTTLED
        } else {
            WAIT_PREEMPTED
        };
        flags |= if task.is_in_iowait() { WAIT_IO } else { 0 };
        flags |= if in_fault { WAIT_IN_FAULT } else { 0 };
        flags |= if call.is_some() { WAIT_IN_CALL } else { 0 };
        // Field by field: a whole one would first be built on the program's stack, which has no space for it in older kernels.
        let now = &raw mut (*waits).now;
        (*now).out = at.time;
        (*now).queued = 0;
        (*now).waker.time = 0;
        (*now).state = task.state();
        (*now).priority = task.priority().unwrap_or(NO_PRIORITY);
        (*now).flags = flags;
        (*now).count = 1;
        // Unknown to the verifier, which would otherwise follow each combination to the end.
        let flags = volatile(&(*now).flags);
        if flags & WAIT_THROTTLED != 0 {
            // Both are filled in at the end.
            ((*now).longest, (*now).queued) = task.throttled_time();
        }
        (*now).call = call.unwrap_or(0);
        if let Some(call) = call {
            task.arguments(call, &raw mut (*now).arguments);
        }
        let place = stack::place_in_kernel(task);
        let site = sites::site_of((*state).space, at.tid, &place, &(*waits).now);
        let site = contention::attribute(waits, site, flags & WAIT_PREEMPTED == 0);
        let may_look = may_look(waits, at.time);
        if !may_look && sites::like_earlier(waits, site) {
            contention::forget_old(waits);
            return;
        }
        look(ctx, state, task, at, &place);
        // Hidden from the compiler, which would make a look of its own for either case.
        if black_box(!may_look) {
            sites::remember(site, &(*waits).stacks);
        }
    }
}

/// Takes one of the thread's tokens for a walk; false: there is none left.
///
/// # Safety
/// `waits` must be the current thread's.
#[inline(always)]
unsafe fn may_look(waits: *mut ThreadWaits, time: u64) -> bool {
    // SAFETY: by this function's own condition.
    unsafe {
        let level = thinning::level(Group::Wait);
        let more = (emit::between((*waits).refilled, time) / REFILL) >> level;
        if more != 0 {
            let most = u64::from(config!(wait_burst) >> level).max(1);
            (*waits).tokens = (u64::from((*waits).tokens) + more).min(most) as u32;
            (*waits).refilled = time;
        }
        if (*waits).tokens == 0 {
            return false;
        }
        (*waits).tokens -= 1;
        true
    }
}

/// Walks the stacks, and determines which file the wait is for.
///
/// # Safety
/// `state` must be the current thread's.
#[inline(always)]
unsafe fn look(ctx: &impl EbpfContext, state: *mut ThreadState, task: Task, at: At, place: &stack::Place) {
    // SAFETY: by this function's own condition.
    unsafe {
        let waits = &raw mut (*state).waits;
        let to = &raw mut (*waits).stacks;
        let want = stack::stacks_to(to, ctx, at, (*state).space, place, stack::Copies::GiveWay);
        thinning::spend(Group::Wait, at.time);
        (*waits).want = want as u32;
        if want != 0 && send_stack_ahead(state, at.time) == 0 {
            lose(Loss::WaitRingFull);
        }
        let now = &raw mut (*waits).now;
        if (*now).flags & (WAIT_IN_CALL | WAIT_PREEMPTED) == WAIT_IN_CALL {
            let number = (*now).call;
            if is_among(&CONFIG.calls_with_file, number) {
                if let Some(file) = names::tell_open(task, (*now).arguments[0], at) {
                    (*now).file = file;
                    (*now).flags |= WAIT_HAS_FILE;
                }
            } else if is_among(&CONFIG.calls_with_path, number) {
                send_path(at, (*now).arguments[0]);
            } else if is_among(&CONFIG.calls_with_path_second, number) {
                send_path(at, (*now).arguments[1]);
            }
        }
    }
}

/// Whether a system call is in a set of the configuration.
#[inline(always)]
pub fn is_among(calls: &CallSet, number: u32) -> bool {
    let words = if number & CALL_I386 == 0 {
        &calls.native
    } else {
        &calls.i386
    };
    words
        .get((number as usize >> 5) & (CALL_WORDS - 1))
        .is_some_and(|word| volatile(word) >> (number & 31) & 1 != 0)
}

#[inline(always)]
fn send_path(at: At, from: u64) {
    emit::call_path(at, |record: *mut CallPath| {
        // SAFETY: a reserved record of this type; the helper stops at the buffer's end.
        unsafe {
            let copied =
                bpf_probe_read_user_str((&raw mut (*record).path).cast(), PATH_LEN as u32, from as *const c_void);
            (*record).len = if copied > 0 { (copied - 1) as u32 } else { 0 }; // without the NUL
            (*record).pad = 0;
        }
    });
}

/// Sends the stacks of the current thread, whose entry is `state`, for a record that will refer to `time`. 0: the ring was full.
///
/// Exported, so that the verifier checks it once rather than with each path of each program that leads here.
///
/// # Safety
/// As [`fault::send_fault`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn send_stack_ahead(state: *const ThreadState, time: u64) -> u32 {
    if state.is_null() {
        return 0;
    }
    // SAFETY: by this function's own condition.
    unsafe {
        let captured = Captured {
            stacks: (*state).waits.stacks,
            want: u64::from((*state).waits.want),
        };
        let at = scope::at(state, time);
        u32::from(emit::stacked(
            RecordKind::StackAhead,
            at,
            &captured,
            |_: *mut StackAheadHead| {},
        ))
    }
}

/// Ends the wait of a recorded thread that is about to run.
///
/// # Safety
/// `state` must be that of the thread that is switched in.
#[inline(always)]
pub unsafe fn switched_in(state: *mut ThreadState, task: Task, at: At) {
    // SAFETY: by this function's own condition: the thread is on this CPU now, so only programs on this CPU use its entry, except for its
    // waker, and a thread that can run has none.
    unsafe {
        let waits = &raw mut (*state).waits;
        let now = &raw mut (*waits).now;
        if (*now).out == 0 {
            if (*waits).seen != 0 {
                missed::at_switch_in(waits);
                cpu::add_unseen(state, task);
                (*waits).waker.time = 0;
                return;
            }
            // If it had been running, it would have been switched out first.
            (*waits).seen = 1;
            (*waits).switches = task.switches().unwrap_or(0);
            (*state).counted = task.sum_exec_runtime();
            // One that was first seen a moment ago is recorded since after the switch.
            (*now).out = scope::since(state).min(at.time);
            (*now).count = 1;
            (*now).flags = WAIT_UNSEEN_START;
        }
        finish(waits, task, at.time);
        // The next wait has its own waker, or one that was not seen.
        (*waits).waker.time = 0;
        if is_summed_up(waits, at.time) {
            add(waits);
        } else {
            tell_merged(state, at);
            sent::now(state, at);
        }
        (*now).out = 0;
    }
}

/// Fills in what is known of a wait at its end.
///
/// # Safety
/// As [`switched_in`].
#[inline(always)]
unsafe fn finish(waits: *mut ThreadWaits, task: Task, time: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        let now = &raw mut (*waits).now;
        let off = emit::between((*now).out, time);
        if (*now).flags & (WAIT_PREEMPTED | WAIT_THROTTLED) == WAIT_PREEMPTED | WAIT_THROTTLED {
            (*now).queued = off - throttled(task, ((*now).longest, (*now).queued), off);
        } else if (*now).flags & WAIT_PREEMPTED != 0 {
            (*now).queued = off;
        }
        ((*now).end, (*now).off, (*now).longest) = (time, off, off);
        if (*now).flags & (WAIT_BIRTH | WAIT_UNSEEN_START) != 0 {
            (*now).priority = task.priority().unwrap_or(NO_PRIORITY);
        }
        if (*now).flags & WAIT_PREEMPTED == 0 && (*waits).waker.time != 0 {
            // A sleeping thread was woken, so the last waker is this wait's, even where it woke between the decision to sleep and the switch.
            (*now).waker = (*waits).waker;
            (*now).flags |= WAIT_WOKEN | (*waits).waker_flags;
            (*now).queued = emit::between((*waits).waker.time.max((*now).out), time);
            // Its last CPU had no quota left, but it ran on another one.
            if (*now).queued < SHORT {
                (*now).flags &= !WAIT_THROTTLED;
            }
        }
    }
}

/// The part of a wait of `off` ns in which the cgroup had no CPU quota: all of it where the kernel does not show it, and if the thread was moved to
/// another CPU. `before`: the result of [`Task::throttled_time`] at the switch-out.
#[inline(always)]
fn throttled(task: Task, before: (u64, u64), off: u64) -> u64 {
    let (queue, time) = task.throttled_time();
    let part = time.wrapping_sub(before.1);
    if queue == before.0 && part != 0 {
        part.min(off)
    } else {
        off
    }
}

/// # Safety
/// As [`switched_in`].
#[inline(always)]
unsafe fn is_summed_up(waits: *const ThreadWaits, time: u64) -> bool {
    // SAFETY: by this function's own condition.
    unsafe {
        let (now, merged) = (&raw const (*waits).now, &raw const (*waits).merged);
        let too_short = (*now).off < u64::from(config!(wait_min));
        if (*now).flags & WAIT_THROTTLED != 0 {
            return false;
        }
        if !too_short && ((*now).flags & WAIT_LIKE_EARLIER == 0 || (*now).off >= SHORT) {
            return false;
        }
        let same = (*now).flags & sites::KIND == (*merged).flags & sites::KIND
            && (*now).call == (*merged).call
            && (*now).lock.address == (*merged).lock.address
            && (*now).flags & WAIT_HAS_FILE == (*merged).flags & WAIT_HAS_FILE
            && ((*now).flags & WAIT_HAS_FILE == 0 || (*now).file.name == (*merged).file.name)
            && (*waits).stacks.user == (*waits).merged_stacks.user
            && (*waits).stacks.kernel == (*waits).merged_stacks.kernel;
        // Short preemptions occur between any other waits: they count as time in the queue.
        let preempted = ((*now).flags | (*merged).flags) & WAIT_PREEMPTED != 0;
        (*merged).count == 0 || ((same || preempted) && emit::between((*merged).out, time) < TOLD_EVERY)
    }
}

/// Adds the wait to those that are aggregated.
///
/// # Safety
/// As [`switched_in`].
#[inline(always)]
unsafe fn add(waits: *mut ThreadWaits) {
    // SAFETY: by this function's own condition.
    unsafe {
        let (now, merged) = (&raw const (*waits).now, &raw mut (*waits).merged);
        if (*merged).count == 0 {
            (*merged) = *now;
            (*waits).merged_stacks = (*waits).stacks;
            return;
        }
        if (*merged).flags & !(*now).flags & WAIT_PREEMPTED != 0 {
            // What was waited for says more than that another thread ran first.
            let sums = *merged;
            *merged = WaitBody {
                out: sums.out,
                off: sums.off,
                queued: sums.queued,
                longest: sums.longest,
                count: sums.count,
                ..*now
            };
            (*waits).merged_stacks = (*waits).stacks;
        }
        (*merged).end = (*now).end;
        (*merged).off += (*now).off;
        (*merged).queued += (*now).queued;
        (*merged).longest = (*merged).longest.max((*now).off);
        (*merged).count += 1;
        if (*now).flags & WAIT_WOKEN != 0 {
            (*merged).waker = (*now).waker;
        }
        (*merged).flags |= (*now).flags & (WAIT_WOKEN | WAIT_BY_INTERRUPT | WAIT_WAKER_UNSURE);
    }
}
