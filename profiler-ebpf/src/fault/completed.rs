//! Tiers 2 and 3, and tier 1 where the kernel skips preempted programs: the kernel counts a completed fault and reports it to perf's software
//! events, during which no program loses the CPU.

use core::ffi::{c_long, c_void};

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::bpf_perf_event_data;
use aya_ebpf::helpers::generated::{bpf_find_vma, bpf_get_attach_cookie};
use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;
use profiler_common::fault::{
    BEFORE_UNKNOWN, FAULT_HANDLED, FAULT_HAS_VMA, FAULT_MAJOR, FAULT_OPEN, FAULT_STARTED, FAULT_VMA_BUSY, FAULTS_MAJOR,
    FaultBody, Pending, ThreadFaults,
};

use super::{UNWATCHED, begin, complete, is_major, known, same_page};
use crate::emit::now;
use crate::kernel::{Task, VmaStruct};
use crate::maps::{THREADS, config};
use crate::twin::{self, Function};
use crate::{scope, selection, stack};

/// `EBUSY`, as the helper returns it.
const BUSY: c_long = -16;

/// `PERF_COUNT_SW_PAGE_FAULTS_MIN` and `PERF_COUNT_SW_PAGE_FAULTS_MAJ`, once per fault. One program for both, since the
/// kernel takes long to verify it: the lower half of the event's cookie is the flag of a fault.
#[perf_event]
pub fn fault_counted(ctx: PerfEventContext) -> u32 {
    // SAFETY: the helper takes the context of a perf event.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    if selection::is_by_cgroup() && !selection::counts(cookie) {
        return 0;
    }
    completed(&ctx, cookie as u32 & FAULT_MAJOR)
}

#[inline(always)]
fn completed(ctx: &PerfEventContext, major: u32) -> u32 {
    let Some(state) = scope::current_thread() else {
        count_outside();
        return 0;
    };
    let task = Task::current();
    let data = ctx.as_ptr().cast_const().cast::<bpf_perf_event_data>();
    // SAFETY: a perf event's context is of this type, and the thread's own entry.
    unsafe {
        let address = core::ptr::read_volatile(&raw const (*data).addr);
        let faults = &raw mut (*state).faults;
        let (inner, outer) = (&raw const (*faults).inner.body, &raw const (*faults).outer.body);
        let is_open = is_this(inner, address);
        if is_open && (*inner).flags & FAULT_HANDLED != 0 {
            // Next is the exit from the function that counted the fault.
            twin::note(Function::Exit, address);
        }
        if config!(faults) == FAULTS_MAJOR && major == 0 && is_open && may_be_left_out(faults) {
            (*faults).counts.filtered += 1;
            super::pop(faults);
            return 0;
        }
        let at = scope::at(state, now());
        if !is_open {
            if is_this(outer, address) {
                // The fault that interrupted it ended without a report.
                (*faults).counts.failed += 1;
                super::pop(faults);
            } else {
                begin(faults, address, at.time, UNWATCHED, 0);
            }
        }
        let fault = &raw mut (*faults).inner;
        (*fault).body.flags |= major;
        let is_left_out = config!(faults) == FAULTS_MAJOR && waited_for_no_disk(fault);
        let is_described = (*fault).body.flags & FAULT_HAS_VMA != 0; // by tier 1
        if !is_left_out
            && !is_described
            && config!(find_vma) != 0
            && known::recall(state) == 0
            && known::find(state) == 0
        {
            let mut nothing = 0_u64;
            let found = bpf_find_vma(
                task.as_ptr(),
                address,
                describe as *mut c_void,
                (&raw mut nothing).cast(),
                0,
            );
            if found == BUSY {
                (*fault).body.flags |= FAULT_VMA_BUSY;
            }
        }
        let place = || {
            if is_left_out {
                stack::nowhere()
            } else {
                stack::place(ctx, task)
            }
        };
        complete(ctx, task, at, state, false, place);
    }
    0
}

/// Where only faults that waited for a disk are wanted, most are left out: neither the time nor mapping and registers are
/// read for those. False: something else has to be done, or it is not known yet.
///
/// # Safety
/// `faults` must be readable.
#[inline(always)]
unsafe fn may_be_left_out(faults: *const ThreadFaults) -> bool {
    // SAFETY: by this function's own condition.
    unsafe {
        let inner = &raw const (*faults).inner;
        (*inner).body.flags & FAULT_STARTED != 0
            && waited_for_no_disk(inner)
            && (*faults).run.count == 0
            && (*faults).counts.before != BEFORE_UNKNOWN
            && scope::goes_on()
    }
}

/// # Safety
/// As [`is_this`].
#[inline(always)]
unsafe fn waited_for_no_disk(fault: *const Pending) -> bool {
    // SAFETY: by this function's own condition.
    unsafe { !is_major(&(*fault).body) && (*fault).out_since == 0 }
}

/// A thread that has left the selection keeps its entry until it is switched out: the kernel's count goes on.
#[inline(always)]
fn count_outside() {
    if selection::is_used()
        && let Some(state) = THREADS.get_ptr_mut(&Task::current().address())
    {
        // SAFETY: the current thread's own entry.
        unsafe { (*state).faults.counts.filtered += 1 };
    }
}

/// # Safety
/// `fault` must be readable.
#[inline(always)]
unsafe fn is_this(fault: *const FaultBody, address: u64) -> bool {
    // SAFETY: by this function's own condition.
    unsafe { (*fault).flags & FAULT_OPEN != 0 && same_page((*fault).address, address) }
}

/// Writes the mapping's data into the fault under way. A static function, for the reason in [`crate::walk`].
unsafe extern "C" fn describe(_: *mut c_void, vma: *const c_void, _: *mut c_void) -> c_long {
    let task = Task::current();
    let Some(state) = THREADS.get_ptr_mut(&task.address()) else {
        return 0;
    };
    // SAFETY: the current thread's own entry, and a mapping that the helper found.
    unsafe {
        let fault = &raw mut (*state).faults.inner;
        let vma = VmaStruct::new(vma);
        (*fault).body.flags |= vma.describe((*fault).body.address, &raw mut (*fault).body.vma);
        (*fault).range = vma.range().into();
        known::learn(
            known::Space::of(task),
            (*state).pid,
            &vma.seen(),
            &raw const (*fault).body,
        );
    }
    0
}
