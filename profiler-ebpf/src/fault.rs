//! fault: page faults of recorded threads, from the exception to their completion.
//!
//! | file | contents |
//! |---|---|
//! | exception | the processor's exception: when a fault begins (tiers 1 and 2) |
//! | handled | `handle_mm_fault`: the attempts, with the mapping at hand (tier 1) |
//! | completed | the kernel's own count of faults: when one is complete (tiers 2 and 3) |
//! | known, tree | mappings in which faults occurred recently, and others in the kernel's own tree |
//! | mapped | what is mapped around a fault at its end |
//! | sampled | faults that are counted, and represented by one that is sent |
//! | pages | what was read meanwhile, and waits for memory |
//! | populated | what system calls map ahead, without a fault (tiers 2 and 3) |
//! | signal | signals, which may end a fault |
//!
//! A thread's fault under way is in its [`ThreadState`]; one that begins inside another sets the outer one aside.

mod completed;
mod exception;
mod handled;
mod known;
mod mapped;
mod pages;
mod populated;
mod sampled;
mod signal;
mod tree;

use aya_ebpf::EbpfContext;
use profiler_common::fault::{
    BEFORE_UNKNOWN, FAULT_CARRIES, FAULT_FAILED, FAULT_HANDLED, FAULT_HAS_FILE, FAULT_HAS_VMA, FAULT_INSIDE,
    FAULT_MAJOR, FAULT_OPEN, FAULT_STARTED, FAULT_SWITCH_MISSED, FAULTS_AUTO, FAULTS_FILE, FAULTS_MAJOR, FaultBody,
    FaultCounts, FaultHead, OUT_BLOCKED, OUT_DISK, OUT_PREEMPTED, Pending, ThreadFaults,
};
use profiler_common::scope::ThreadState;
use profiler_common::thinning::Group;
use profiler_common::{Loss, RecordKind};

use crate::copy::Captured;
use crate::emit::{self, At, lose};
use crate::kernel::Task;
use crate::maps::config;
use crate::stack::{self, Place};
use crate::{arch, cpu, scope, thinning};

/// The flags that are sent to user space.
const TOLD: u32 = !(FAULT_OPEN | FAULT_INSIDE | FAULT_CARRIES);

/// The faults of the current thread, if it is recorded.
#[inline(always)]
fn current_faults() -> Option<*mut ThreadFaults> {
    // SAFETY: only an address within the thread's own entry is computed.
    scope::current_thread().map(|state| unsafe { &raw mut (*state).faults })
}

/// The innermost fault that the current thread is in.
#[inline(always)]
fn current_fault() -> Option<*mut Pending> {
    let faults = current_faults()?;
    // SAFETY: the current thread's own entry.
    unsafe { is_open(&(*faults).inner).then_some(&raw mut (*faults).inner) }
}

/// The fault is under way.
#[inline(always)]
pub fn is_open(fault: &Pending) -> bool {
    fault.body.flags & FAULT_OPEN != 0
}

/// The kernel counts the fault as major, or it waited for a disk.
#[inline(always)]
fn is_major(fault: &FaultBody) -> bool {
    fault.flags & FAULT_MAJOR != 0 || fault.waits.disk != 0
}

/// Begins a fault and sets aside the one under way, if any.
///
/// # Safety
/// `faults` must be the current thread's.
#[inline(always)]
unsafe fn begin(faults: *mut ThreadFaults, address: u64, time: u64, flags: u32, error_code: u32) {
    // SAFETY: by this function's own condition.
    unsafe {
        if is_open(&(*faults).inner) {
            if is_open(&(*faults).outer) {
                lose(Loss::FaultNested);
            }
            (*faults).outer = (*faults).inner;
        }
        (*faults).inner = Pending {
            body: FaultBody {
                address,
                start: time,
                flags: flags | FAULT_OPEN,
                error_code,
                ..FaultBody::default()
            },
            switches_before: Task::current().switches().unwrap_or(0),
            ..Pending::default()
        };
    }
}

/// Ends the innermost fault; the one that it interrupted continues.
///
/// # Safety
/// As [`begin`].
#[inline(always)]
unsafe fn pop(faults: *mut ThreadFaults) {
    // SAFETY: by this function's own condition.
    unsafe {
        (*faults).inner.body.flags = 0;
        if is_open(&(*faults).outer) {
            (*faults).outer.switches += (*faults).inner.switches;
            (*faults).inner = (*faults).outer;
            (*faults).outer.body.flags = 0;
        }
    }
}

/// Counts every fault under way as failed: none will complete, and the kernel did not report why.
///
/// # Safety
/// As [`begin`].
#[inline(always)]
unsafe fn give_up(faults: *mut ThreadFaults) {
    // SAFETY: by this function's own condition.
    unsafe {
        if is_open(&(*faults).inner) {
            (*faults).counts.failed += 1;
            (*faults).inner.body.flags = 0;
        }
        if is_open(&(*faults).outer) {
            (*faults).counts.failed += 1;
            (*faults).outer.body.flags = 0;
        }
    }
}

/// Completes the innermost fault of the current thread, which was at `place`, at `at`: counts it, and sends it if it was
/// requested. Most are only counted. `is_refused`: the kernel refused the access, so nothing was mapped.
///
/// # Safety
/// `state` must be the current thread's.
#[inline(always)]
unsafe fn complete(
    ctx: &impl EbpfContext,
    task: Task,
    at: At,
    state: *mut ThreadState,
    is_refused: bool,
    place: impl FnOnce() -> Place,
) {
    // SAFETY: by this function's own condition.
    unsafe {
        let faults = &raw mut (*state).faults;
        let fault = &raw mut (*faults).inner;
        if !scope::is_within(at.time) {
            pop(faults);
            return;
        }
        settle(fault, task);
        pages::tell(faults, at);
        let flags = (*fault).body.flags;
        let failed = flags & FAULT_FAILED != 0;
        if (*faults).counts.before == BEFORE_UNKNOWN {
            let counted = task.minor_faults() + task.major_faults();
            (*faults).counts.before = counted.saturating_sub(u64::from(!failed));
        }
        if failed {
            (*faults).counts.failed += 1;
        }
        if config!(faults) == FAULTS_AUTO && !is_refused && sampled::is_only_counted(state, at) {
            (*faults).counts.seen += 1;
            pop(faults);
            return;
        }
        let wanted = match config!(faults) {
            // Where the mapping could not be read, user space knows whether a file backs it.
            FAULTS_FILE => flags & FAULT_HAS_FILE != 0 || flags & FAULT_HAS_VMA == 0,
            FAULTS_MAJOR => is_major(&(*fault).body),
            _ => true,
        };
        if wanted {
            if !is_refused {
                mapped::read_mapped(state);
            }
            let place = &place();
            let to = &raw mut (*faults).stacks;
            (*faults).want = if sampled::has_stack(faults, at) {
                let want = stack::stacks_to(to, ctx, at, (*state).space, place, stack::Copies::GiveWay);
                thinning::spend(Group::Fault, at.time);
                want
            } else {
                stack::innermost_to(to, place);
                0
            };
            let sent = send_fault(state, at.time) != 0;
            if !sent {
                lose(Loss::FaultRingFull);
            }
            if !failed {
                let count = if sent {
                    &raw mut (*faults).counts.seen
                } else {
                    &raw mut (*faults).counts.lost
                };
                *count += 1;
            }
            sampled::settle(faults, sent);
        } else if !failed {
            (*faults).counts.filtered += 1;
        }
        pop(faults);
    }
}

/// Sends the innermost fault of the current thread, whose entry is `state`; the fault ended at `time`. 0: the ring was full.
///
/// Exported, so that the verifier checks it once rather than with each path of each program that leads here.
///
/// # Safety
/// `state` must be null or the current thread's.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn send_fault(state: *const ThreadState, time: u64) -> u32 {
    // The verifier assumes that an exported function may get any value of the argument's type.
    if state.is_null() {
        return 0;
    }
    // SAFETY: by this function's own condition.
    unsafe {
        let faults = &raw const (*state).faults;
        let captured = Captured {
            stacks: (*faults).stacks,
            want: (*faults).want,
        };
        let sent = emit::stacked(
            RecordKind::Fault,
            scope::at(state, time),
            &captured,
            |head: *mut FaultHead| {
                (*head).body = (*faults).inner.body;
                (*head).body.flags &= TOLD;
                (*head).others = sampled::carried(faults);
            },
        );
        u32::from(sent)
    }
}

/// Accounts for the faults of a thread that has ended.
///
/// # Safety
/// As [`complete`].
#[inline(always)]
pub unsafe fn ended(state: *mut ThreadState, at: At) -> FaultCounts {
    // SAFETY: by this function's own condition.
    unsafe {
        let faults = &raw mut (*state).faults;
        give_up(faults);
        pages::tell(faults, at);
        sampled::emit_rest(state, at.time);
        (*faults).counts
    }
}

/// Counts the faults of a thread that has left the selection since its last one that was shown: no event fires for it any more.
///
/// # Safety
/// As [`complete`].
#[inline(always)]
pub unsafe fn count_outside(state: *mut ThreadState, task: Task) {
    // SAFETY: by this function's own condition.
    unsafe {
        let counts = &raw mut (*state).faults.counts;
        if (*counts).before == BEFORE_UNKNOWN {
            return;
        }
        let shown = (*counts).before + (*counts).seen + (*counts).lost + (*counts).filtered;
        let all = task.minor_faults() + task.major_faults();
        (*counts).filtered += all.saturating_sub(shown);
    }
}

/// Accounts for the thread's switch-out: within a fault that is a wait. `from` is when it was switched in.
///
/// # Safety
/// As [`complete`], for the thread that was running.
#[inline(always)]
pub unsafe fn switched_out(state: *mut ThreadState, task: Task, preempted: bool, from: u64, time: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        let fault = &raw mut (*state).faults.inner;
        let flags = (*fault).body.flags;
        (*fault).switches += 1;
        // Between two attempts, all time counts as a wait for the lock.
        if flags & FAULT_OPEN == 0 || flags & (FAULT_HANDLED | FAULT_INSIDE) == FAULT_HANDLED {
            return;
        }
        add_wait(fault, from);
        (*fault).out_since = time;
        (*fault).out_kind = if preempted {
            OUT_PREEMPTED
        } else if task.is_in_iowait() {
            OUT_DISK
        } else {
            OUT_BLOCKED
        };
    }
}

/// Accounts for the last switch-out of a fault whose thread runs again, and for switches that were not seen.
///
/// # Safety
/// `fault` must be the current thread's.
#[inline(always)]
unsafe fn settle(fault: *mut Pending, task: Task) {
    // SAFETY: by this function's own condition.
    unsafe {
        if (*fault).out_since != 0 {
            add_wait(fault, cpu::switched_in());
        }
        let seen = (*fault).switches_before + u64::from((*fault).switches);
        if task.switches().is_some_and(|switches| switches > seen) {
            (*fault).body.flags |= FAULT_SWITCH_MISSED;
        }
    }
}

/// # Safety
/// As [`settle`].
#[inline(always)]
unsafe fn add_wait(fault: *mut Pending, until: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        if (*fault).out_since == 0 {
            return;
        }
        // The last switch that this CPU saw is the one that took the thread off it, or an earlier one.
        if until <= (*fault).out_since {
            (*fault).body.flags |= FAULT_SWITCH_MISSED;
        }
        let time = emit::between((*fault).out_since, until);
        let waits = &raw mut (*fault).body.waits;
        match (*fault).out_kind {
            OUT_DISK => (*waits).disk += time,
            OUT_PREEMPTED => (*waits).preempted += time,
            _ => (*waits).blocked += time,
        }
        (*fault).out_since = 0;
    }
}

#[inline(always)]
fn same_page(one: u64, other: u64) -> bool {
    (one ^ other) >> arch::page_shift() == 0
}

/// A fault that began before tracing did.
const UNWATCHED: u32 = 0;
/// A fault whose start was seen.
const STARTED: u32 = FAULT_STARTED;
