//! switch: when threads are switched in and out, for exact on-CPU times and waits.

use core::ffi::c_void;

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::scope::{HIDES_ALWAYS, ThreadState};

use crate::cpu::{add_unseen, run, seems_out};
use crate::emit::now;
use crate::kernel::Task;
use crate::maps::{SWITCHED_IN, config};
use crate::{fault, scope, selection, task, wait};

/// `sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, ...)`
#[btf_tracepoint(function = "sched_switch")]
#[inline(always)] // a call more would make the deepest stack too large for 6.1
pub fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let previous = Task::new(ctx.arg::<*const c_void>(1));
    let next = Task::new(ctx.arg::<*const c_void>(2));
    let Some(switched_in) = SWITCHED_IN.get_ptr_mut(0) else {
        return 0;
    };
    let state = scope::also_hidden(previous);
    // Of a switch between threads of other cgroups nothing is needed, not even its time: no recorded thread's time on a CPU begins or ends.
    // SAFETY: this CPU's own entry, and preemption is off.
    if state.is_none() && scope::is_elsewhere(next) && unsafe { *switched_in } != 0 {
        selection::thread_ended(previous, false);
        return 0;
    }
    let time = now();
    // SAFETY: as above. A sample that interrupts between this store and the sum below reports too little, and the next one makes up for it.
    let from = unsafe { core::ptr::replace(switched_in, time) };
    let preempted = ctx.arg::<u64>(0) & 1 != 0;
    let is_within = scope::is_within(time);
    if let Some(state) = state {
        // A process that hides itself is no longer recorded.
        let hides = config!(hides) == HIDES_ALWAYS && previous.is_hidden();
        let is_unselected = scope::is_unselected(previous);
        // SAFETY: the thread is on this CPU, so only programs on this CPU use its entry.
        unsafe {
            // It is unknown when another process moved it elsewhere: mostly while it did not run.
            if is_within && !is_unselected {
                add_run(state, previous, from, time);
                if config!(faults) != 0 && !hides {
                    fault::switched_out(state, previous, preempted || previous.is_runnable(), from, time);
                }
            } else if time >= scope::end() {
                add_last_run(state, from, time);
            }
            if previous.is_dead() || hides || is_unselected {
                if config!(waits) != 0 && is_within {
                    let waits = &raw mut (*state).waits;
                    if previous.is_dead() {
                        wait::missed::at_switch_out(waits, previous);
                    } else {
                        wait::missed::since_last(waits, previous);
                    }
                }
                task::ended(previous, state, time, (*state).total.saturating_sub((*state).reported));
            } else if config!(waits) != 0 && is_within {
                wait::switched_out(&ctx, state, previous, scope::at(state, time), preempted);
            }
        }
    }
    selection::thread_ended(previous, false);
    if config!(waits) != 0 && is_within {
        if let Some(state) = scope::thread(next) {
            // SAFETY: as above.
            unsafe { wait::switched_in(state, next, scope::at(state, time)) };
        }
    }
    0
}

/// Adds the time that the thread, which is switched out, ran: since this CPU switched it in at `from`, or, where that was not shown, by the kernel's own count.
///
/// # Safety
/// `state` must be the entry of `task`, the current thread.
#[inline(always)]
unsafe fn add_run(state: *mut ThreadState, task: Task, from: u64, time: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        if seems_out(state) {
            add_unseen(state, task);
        } else {
            (*state).total += run(state, from, time);
            (*state).counted = task.sum_exec_runtime();
        }
    }
}

/// Adds the time until the end of the recording that a thread ran, which is switched out after that.
///
/// # Safety
/// `state` must be the entry of the current thread.
#[inline(always)]
unsafe fn add_last_run(state: *mut ThreadState, from: u64, time: u64) {
    // SAFETY: by this function's own condition.
    unsafe {
        if !seems_out(state) {
            (*state).total += run(state, from, time);
            (*state).waits.seen = 1;
        }
    }
}
