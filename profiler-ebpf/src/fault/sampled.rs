//! Faults that are counted, and represented by one that is sent: with [`FAULTS_AUTO`], first writes to anonymous memory,
//! which are most of a program's faults and explain least.
//!
//! Each of them is sent with a probability that only the past determines, so a fault that is sent represents those of
//! its thread since the one before: their number, and the sum of their times. The sums are exact; their distribution
//! over stacks is an unbiased estimate.

use aya_ebpf::helpers::bpf_get_prandom_u32;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use profiler_common::Loss;
use profiler_common::fault::{
    Counted, FAULT_CARRIES, FAULT_EXCEPTION, FAULT_FAILED, FAULT_HAS_FILE, FAULT_HAS_VMA, FAULT_HUGE, FAULT_MAJOR,
    FAULT_REMOTE, FAULT_REST, FAULT_STARTED, FAULTS_AUTO, FIRST_FAULTS, FaultBody, LONG_FAULT, SAMPLED_A_WINDOW,
    SAMPLING_WINDOW, ThreadFaults, Waits, error_code,
};
use profiler_common::scope::ThreadState;
use profiler_common::stack::Stacks;

use super::send_fault;
use crate::emit::{At, lose};
use crate::maps::config;

/// `VM_UFFD_MISSING` and `VM_UFFD_WP` of include/linux/mm.h: a program handles the faults.
const SUPPLIED: u64 = 0x200 | 0x1000;

/// Windows that the average reaches back: faults come in bursts.
const MEMORY: u32 = 4;

/// The faults of a CPU that may be represented.
#[repr(C)]
struct Window {
    /// When it began.
    since: u64,
    /// The faults in it.
    faults: u32,
    /// The average of earlier windows, times [`MEMORY`].
    level: u32,
    /// A fault is sent if a random number is below this; 0 (before the first window): always.
    threshold: u32,
    /// Explicit padding.
    pad: u32,
}

#[map]
static WINDOWS: PerCpuArray<Window> = PerCpuArray::with_max_entries(1, 0);

/// Decides about the innermost fault, which ended at `at`. True: it is only counted, which is done.
///
/// # Safety
/// `faults` must be the current thread's.
#[inline(always)]
pub unsafe fn is_only_counted(faults: *mut ThreadFaults, at: At) -> bool {
    // SAFETY: by this function's own condition.
    unsafe {
        let fault = &raw mut (*faults).inner.body;
        let time = at.time.saturating_sub((*fault).start);
        if !may_be_represented(fault) || time >= LONG_FAULT || (*faults).counts.seen < FIRST_FAULTS {
            return false;
        }
        if is_chosen(at.time) {
            (*fault).flags |= FAULT_CARRIES;
            return false;
        }
        (*faults).others.faults += 1;
        (*faults).others.time += time;
    }
    true
}

/// It wrote to a page of anonymous memory that was not there, and did nothing else.
///
/// # Safety
/// `fault` must be readable.
#[inline(always)]
unsafe fn may_be_represented(fault: *const FaultBody) -> bool {
    const KNOWN: u32 = FAULT_HAS_VMA | FAULT_STARTED;
    const OTHER: u32 = FAULT_HAS_FILE | FAULT_MAJOR | FAULT_FAILED | FAULT_REMOTE | FAULT_HUGE;
    // SAFETY: by this function's own condition.
    unsafe {
        let flags = (*fault).flags;
        let writes = if flags & FAULT_EXCEPTION != 0 {
            (*fault).error_code & (error_code::WRITE | error_code::PRESENT) == error_code::WRITE
        } else {
            false
        };
        let Waits {
            lock,
            disk,
            blocked,
            preempted,
            reclaim,
        } = (*fault).waits;
        writes
            && flags & (KNOWN | OTHER) == KNOWN
            && (*fault).vma.flags & SUPPLIED == 0
            && lock | disk | blocked | preempted | reclaim == 0
            && (*fault).retries | (*fault).read | (*fault).signal == 0
    }
}

/// Chooses at random, as often as the CPU's last window allows.
#[inline(always)]
fn is_chosen(time: u64) -> bool {
    let Some(window) = WINDOWS.get_ptr_mut(0) else {
        return true;
    };
    // SAFETY: this CPU's memory; a program that interrupts this one counts no fault.
    unsafe {
        if time.wrapping_sub((*window).since) >= SAMPLING_WINDOW {
            let level = (*window).level - (*window).level / MEMORY + (*window).faults;
            (*window).level = level;
            (*window).threshold = if level <= SAMPLED_A_WINDOW * MEMORY {
                0
            } else {
                (u64::from(SAMPLED_A_WINDOW * MEMORY) << 32).wrapping_div(u64::from(level)) as u32
            };
            (*window).faults = 0;
            (*window).since = time;
        }
        (*window).faults += 1;
        (*window).threshold == 0 || bpf_get_prandom_u32() < (*window).threshold
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
            (*faults).others
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
        if (*faults).inner.body.flags & FAULT_CARRIES == 0 {
            return;
        }
        if !sent {
            let lost = u64::from((*faults).others.faults);
            (*faults).counts.lost += lost;
            (*faults).counts.seen = (*faults).counts.seen.wrapping_sub(lost);
        }
        (*faults).others = Counted::default();
    }
}

/// Sends the faults of a thread that ends which none represents yet.
///
/// # Safety
/// `state` must be the current thread's, which is in no fault.
#[inline(always)]
pub unsafe fn tell_rest(state: *mut ThreadState, at: At) {
    // SAFETY: by this function's own condition.
    unsafe {
        let faults = &raw mut (*state).faults;
        if config!(faults) != FAULTS_AUTO || (*faults).others.faults == 0 {
            return;
        }
        (*faults).inner.body = FaultBody {
            start: at.time,
            flags: FAULT_REST | FAULT_CARRIES | FAULT_STARTED | FAULT_EXCEPTION | FAULT_HAS_VMA,
            error_code: error_code::WRITE | error_code::USER,
            ..FaultBody::default()
        };
        (*faults).others.faults -= 1;
        (*faults).stacks = Stacks::default();
        (*faults).want = 0;
        let sent = send_fault(state, at.time) != 0;
        if !sent {
            lose(Loss::FaultRingFull);
            (*faults).counts.lost += 1;
            (*faults).counts.seen = (*faults).counts.seen.wrapping_sub(1);
        }
        settle(faults, sent);
        (*faults).inner.body.flags = 0;
    }
}
