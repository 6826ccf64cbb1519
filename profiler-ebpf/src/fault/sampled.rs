//! Faults that are counted, and represented by one that is sent: with [`FAULTS_AUTO`], writes to anonymous memory, which
//! are most of a program's faults and explain least.
//!
//! Each of them is sent with a probability that only the thread's past determines, so one that is sent represents those
//! of its kind since the one before: their number, and the sum of their times. The sums are exact; their distribution
//! over stacks is an unbiased estimate, since no sum spans a change of the probability: what was counted by then is sent
//! without a stack.

use profiler_common::fault::{
    Counted, FAULT_CARRIES, FAULT_EXCEPTION, FAULT_FAILED, FAULT_HAS_FILE, FAULT_HAS_VMA, FAULT_HUGE, FAULT_MAJOR,
    FAULT_REMOTE, FAULT_REST, FAULT_STARTED, FAULTS_AUTO, FIRST_FAULTS, FaultBody, FaultHead, LONG_FAULT,
    SAMPLED_A_WINDOW, SAMPLING_MEMORY, SAMPLING_WINDOW, SampledKind, Sampling, ThreadFaults, Waits, error_code,
};
use profiler_common::scope::ThreadState;
use profiler_common::stack::Stacks;
use profiler_common::thinning::Group;
use profiler_common::{Loss, RecordKind};

use crate::copy::Captured;
use crate::emit::{self, At, lose_many};
use crate::maps::config;
use crate::thinning;

/// `VM_UFFD_MISSING` and `VM_UFFD_WP` of include/linux/mm.h: a program handles the faults.
const SUPPLIED: u64 = 0x200 | 0x1000;

/// Decides about the innermost fault of the current thread, whose entry is `state`; it ended at `at`. True: it is only
/// counted, which is done.
///
/// # Safety
/// `state` must be the current thread's.
#[inline(always)]
pub unsafe fn is_only_counted(state: *mut ThreadState, at: At) -> bool {
    // SAFETY: by this function's own condition.
    unsafe {
        let faults = &raw mut (*state).faults;
        let fault = &raw mut (*faults).inner.body;
        let time = emit::between((*fault).start, at.time);
        if !may_be_represented(fault) || time >= LONG_FAULT || (*faults).counts.seen < FIRST_FAULTS {
            return false;
        }
        let sampling = &raw mut (*faults).sampling;
        if at.time.wrapping_sub((*sampling).since) >= SAMPLING_WINDOW && renew(state, at.time) != 0 {
            emit_rest(state, at.time);
        }
        (*sampling).faults += 1;
        if thinning::is_chosen((*sampling).shift) {
            (*fault).flags |= FAULT_CARRIES;
            return false;
        }
        let others = others_of(faults);
        (*others).faults += 1;
        (*others).time += time;
    }
    true
}

/// Whether the stack of the innermost fault is walked, which ended at `at`.
///
/// # Safety
/// `faults` must be the current thread's.
#[inline(always)]
pub unsafe fn has_stack(faults: *const ThreadFaults, at: At) -> bool {
    let level = thinning::level(Group::Fault);
    // A program may start thousands of threads, but what a process begins with is always worth a stack.
    let first = if at.pid == at.tid {
        FIRST_FAULTS
    } else {
        FIRST_FAULTS >> level
    };
    // SAFETY: by this function's own condition.
    unsafe {
        let fault = &raw const (*faults).inner.body;
        level == 0
            || (*fault).flags & (FAULT_CARRIES | FAULT_MAJOR | FAULT_FAILED) != 0
            || (*fault).flags & FAULT_STARTED == 0
            || (*fault).waits.disk | (*fault).waits.blocked != 0
            || emit::between((*fault).start, at.time) >= LONG_FAULT
            || (*faults).counts.seen < first
            || thinning::is_chosen(level)
    }
}

/// It wrote to a page of anonymous memory, and did nothing else.
///
/// # Safety
/// `fault` must be readable.
#[inline(always)]
unsafe fn may_be_represented(fault: *const FaultBody) -> bool {
    const KNOWN: u32 = FAULT_HAS_VMA | FAULT_STARTED | FAULT_EXCEPTION;
    const OTHER: u32 = FAULT_HAS_FILE | FAULT_MAJOR | FAULT_FAILED | FAULT_REMOTE | FAULT_HUGE;
    // SAFETY: by this function's own condition.
    unsafe {
        // The lock's part is all time before the first attempt, which is never 0.
        let Waits {
            lock: _,
            disk,
            blocked,
            preempted,
            reclaim,
        } = (*fault).waits;
        (*fault).flags & (KNOWN | OTHER) == KNOWN
            && (*fault).error_code & error_code::WRITE != 0
            && (*fault).vma.flags & SUPPLIED == 0
            && disk | blocked | preempted | reclaim == 0
            && (*fault).retries | (*fault).read | (*fault).signal == 0
    }
}

/// The counted faults of the innermost one's kind.
///
/// # Safety
/// `faults` must be the current thread's.
#[inline(always)]
unsafe fn others_of(faults: *mut ThreadFaults) -> *mut Counted {
    // SAFETY: by this function's own condition, and the number of a kind is within the array.
    unsafe {
        let kind = SampledKind::of((*faults).inner.body.error_code);
        (&raw mut (*faults).others).cast::<Counted>().add(kind as usize)
    }
}

/// Begins a window of the current thread, whose entry is `state`. 1: the probability changes.
///
/// Exported, so that the verifier checks it once.
///
/// # Safety
/// `state` must be null or the current thread's.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn renew(state: *mut ThreadState, time: u64) -> u32 {
    if state.is_null() {
        return 0;
    }
    // SAFETY: by this function's own condition.
    unsafe {
        let sampling = &raw mut (*state).faults.sampling;
        let level = (*sampling).level - (*sampling).level / SAMPLING_MEMORY + (*sampling).faults;
        let before = (*sampling).shift;
        // The smallest probability 1/2^shift at which the level gives as many as are wanted.
        let mut shift = 0;
        let wanted = (SAMPLED_A_WINDOW * SAMPLING_MEMORY) >> thinning::level(Group::Fault).min(3);
        for each in 1..=Sampling::MOST {
            shift += u32::from(level >> each >= wanted);
        }
        // Down only once it would be a quarter: a change costs the stacks of those that were counted.
        if shift + 1 == before {
            shift = before;
        }
        *sampling = Sampling {
            since: time,
            faults: 0,
            level,
            shift,
            pad: 0,
        };
        u32::from(shift != before)
    }
}

/// What the innermost fault represents besides itself.
///
/// # Safety
/// `faults` must be readable.
#[inline(always)]
pub unsafe fn carried(faults: *const ThreadFaults) -> Counted {
    // SAFETY: by this function's own condition.
    unsafe {
        if (*faults).inner.body.flags & FAULT_CARRIES != 0 {
            *others_of(faults.cast_mut())
        } else {
            Counted::default()
        }
    }
}

/// Begins to count anew after the innermost fault, if it represents others. Those of a lost one are lost.
///
/// # Safety
/// `faults` must be the current thread's.
#[inline(always)]
pub unsafe fn settle(faults: *mut ThreadFaults, sent: bool) {
    // SAFETY: by this function's own condition.
    unsafe {
        if (*faults).inner.body.flags & FAULT_CARRIES != 0 {
            end(faults, others_of(faults), sent);
        }
    }
}

/// # Safety
/// As [`settle`], for some of its `others`.
#[inline(always)]
unsafe fn end(faults: *mut ThreadFaults, others: *mut Counted, sent: bool) {
    // SAFETY: by this function's own condition.
    unsafe {
        if !sent {
            let lost = u64::from((*others).faults);
            lose_many(Loss::FaultRingFull, lost);
            (*faults).counts.lost += lost;
            (*faults).counts.seen = (*faults).counts.seen.wrapping_sub(lost);
        }
        *others = Counted::default();
    }
}

/// Sends the faults of the current thread, whose entry is `state`, that none represents, without a stack.
///
/// # Safety
/// `state` must be null or the current thread's.
#[inline(always)]
pub unsafe fn emit_rest(state: *mut ThreadState, time: u64) {
    if config!(faults) == FAULTS_AUTO {
        for kind in SampledKind::ALL {
            // SAFETY: by this function's own condition.
            unsafe { emit_rest_of(state, time, kind as u32) };
        }
    }
}

/// [`emit_rest`] of the [`SampledKind`] with this number. The return value has no meaning.
///
/// Exported, so that the verifier checks it once.
///
/// # Safety
/// As [`emit_rest`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn emit_rest_of(state: *mut ThreadState, time: u64, kind: u32) -> u32 {
    if state.is_null() {
        return 0;
    }
    let kind = SampledKind::numbered(kind);
    // SAFETY: by this function's own condition, and the number of a kind is within the array.
    unsafe {
        let faults = &raw mut (*state).faults;
        let others = (&raw mut (*faults).others).cast::<Counted>().add(kind as usize);
        let Counted {
            faults: count,
            time: sum,
            ..
        } = *others;
        if count == 0 {
            return 0;
        }
        let nothing = Captured {
            stacks: Stacks::default(),
            want: 0,
        };
        let sent = emit::stacked(
            RecordKind::Fault,
            crate::scope::at(state, time),
            &nothing,
            |head: *mut FaultHead| {
                (*head).body = FaultBody {
                    start: time,
                    flags: FAULT_REST | FAULT_STARTED | FAULT_EXCEPTION | FAULT_HAS_VMA,
                    error_code: kind.error_code(),
                    ..FaultBody::default()
                };
                (*head).others = Counted {
                    faults: count - 1,
                    time: sum,
                    pad: 0,
                };
            },
        );
        end(faults, others, sent);
    }
    0
}
