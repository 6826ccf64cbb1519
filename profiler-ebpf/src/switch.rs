//! switch: when threads are switched in and out, for exact on-CPU times and waits.

use core::ffi::c_void;

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::scope::ThreadState;

use crate::emit::now;
use crate::kernel::Task;
use crate::maps::{SWITCHED_IN, config};
use crate::{fault, scope, task, wait};

/// `sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, ...)`
#[btf_tracepoint(function = "sched_switch")]
pub fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let previous = Task::new(ctx.arg::<*const c_void>(1));
    let Some(switched_in) = SWITCHED_IN.get_ptr_mut(0) else {
        return 0;
    };
    let time = now();
    // SAFETY: this CPU's own entry, and preemption is off. A sample that interrupts between this store and the sum below
    // reports too little, and the next one makes up for it.
    let from = unsafe { core::ptr::replace(switched_in, time) };
    let preempted = ctx.arg::<u64>(0) & 1 != 0;
    if let Some(state) = scope::thread(previous) {
        // SAFETY: the thread is on this CPU, so only programs on this CPU use its entry.
        unsafe {
            (*state).total += time.saturating_sub(from.max((*state).since));
            if config!(faults) != 0 {
                fault::switched_out(state, previous, preempted || previous.is_runnable(), from, time);
            }
            if previous.is_dead() {
                task::ended(previous, state, time, (*state).total.saturating_sub((*state).reported));
            } else if config!(waits) != 0 {
                wait::switched_out(&ctx, state, previous, scope::at(state, time), preempted);
            }
        }
    }
    if config!(waits) != 0 {
        let next = Task::new(ctx.arg::<*const c_void>(2));
        if let Some(state) = scope::thread(next) {
            // SAFETY: as above.
            unsafe { wait::switched_in(state, next, scope::at(state, time)) };
        }
    }
    0
}

/// When the running thread was switched in on this CPU; 0: it ran already when the programs were attached.
#[inline(always)]
pub fn switched_in() -> u64 {
    SWITCHED_IN.get(0).copied().unwrap_or(0)
}

/// The current thread's time on CPUs since it is recorded.
///
/// # Safety
/// `state` must be the current thread's entry.
#[inline(always)]
pub unsafe fn on_cpu_time(state: *const ThreadState, time: u64) -> u64 {
    let from = switched_in();
    // SAFETY: by this function's own condition.
    unsafe { (*state).total + time.saturating_sub(from.max((*state).since)) }
}

/// Whether this CPU has seen a switch since the programs were attached.
#[inline(always)]
pub fn is_watched() -> bool {
    switched_in() != 0
}
