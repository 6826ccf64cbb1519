//! Which thread or interrupt wakes a recorded thread.

use core::ffi::c_void;

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::config::MISSING;
use profiler_common::stack::FLAG_IN_KERNEL;
use profiler_common::switch::{
    OUTSIDE, WAIT_BY_INTERRUPT, WAIT_LIKE_EARLIER, WAIT_THROTTLED, WAIT_WAKER_UNSURE, Waker,
};

use profiler_common::thinning::Group;

use crate::arch::SYS_FUTEX;
use crate::emit::{At, now};
use crate::kernel::{self, Task};
use crate::maps::config;
use crate::{scope, stack, thinning};

/// `sched_waking(struct task_struct *p)`, in the waker's context. Not `sched_wakeup`, which may occur on the woken thread's CPU.
#[btf_tracepoint(function = "sched_waking")]
pub fn sched_waking(ctx: BtfTracePointContext) -> i32 {
    let woken = Task::new(ctx.arg::<*const c_void>(0));
    let Some(state) = scope::thread(woken) else {
        return 0;
    };
    let is_idle_task = bpf_get_current_pid_tgid() as u32 == 0;
    // The idle task runs nothing but interrupts.
    let interrupt = if is_idle_task {
        Some(true)
    } else {
        kernel::in_interrupt()
    };
    let (pid, tid) = match kernel::current_ids() {
        (_, 0) if interrupt != Some(true) => (0, OUTSIDE),
        ids => ids,
    };
    let at = At { time: now(), pid, tid };
    let mut waker = Waker {
        time: at.time,
        pid,
        tid,
        ..Waker::default()
    };
    // SAFETY: whole words of an entry that only the waker uses, under the kernel's own lock of that thread.
    unsafe {
        let waits = &raw mut (*state).waits;
        let has_looks = (*waits).tokens != 0 && (*waits).now.flags & WAIT_LIKE_EARLIER == 0;
        if has_looks && interrupt != Some(true) && !is_idle_task && scope::is_within(at.time) {
            let task = Task::current();
            // Only the kernel stack of a waker that is not recorded is taken; it is enough to recognize an interrupt.
            let (space, mut place) = match scope::thread(task) {
                Some(own) => ((*own).space, stack::place_in_kernel(task)),
                None => (0, stack::nowhere()),
            };
            // The kernel's way from this call to the wakeup is always the same, and takes as long to unwind as the user stack.
            if interrupt == Some(false) && task.may_be_in(&[SYS_FUTEX]) {
                place.flags &= !FLAG_IN_KERNEL;
            }
            let captured = stack::stacks(&ctx, at, space, &place, stack::Copies::Nothing);
            thinning::spend(Group::Wait, at.time);
            (waker.user, waker.kernel) = (captured.stacks.user, captured.stacks.kernel);
        }
        (*waits).waker = waker;
        // Later kernels let it run first, until it returns to user space.
        let throttled = config!(task_throttled) == MISSING && woken.is_throttled();
        (*waits).waker_flags = match interrupt {
            Some(true) => WAIT_BY_INTERRUPT,
            Some(false) => 0,
            None => WAIT_WAKER_UNSURE,
        } | if throttled { WAIT_THROTTLED } else { 0 };
    }
    0
}
