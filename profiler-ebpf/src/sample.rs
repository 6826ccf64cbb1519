//! sample: where a recorded thread is when the sampling event fires on its CPU.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;
use profiler_common::sample::{STACK_CLASSES, Sample};

use crate::emit::{self, At};
use crate::kernel::Task;
use crate::stack::Stacks;
use crate::{scope, stack, switch};

/// Runs on each CPU at the sampling rate, whoever is running.
#[perf_event]
pub fn sample(ctx: PerfEventContext) -> u32 {
    let pair = bpf_get_current_pid_tgid();
    let (pid, tid) = ((pair >> 32) as u32, pair as u32);
    let Some(state) = scope::thread(pid, tid) else {
        return 0;
    };
    let at = At::now(pid, tid);
    // SAFETY: the current thread's own entry.
    let (total, reported) = unsafe { (switch::on_cpu_time(state, at.time), (*state).reported) };
    let task = Task::current();
    let place = stack::place(&ctx, task);
    // SAFETY: as above.
    let stacks = stack::stacks(&ctx, task, at, unsafe { (*state).space }, &place);
    let cpu_time = total.saturating_sub(reported);
    let [small, middle, _] = STACK_CLASSES;
    let written = if stacks.want == 0 {
        write::<0>(at, cpu_time, &stacks)
    } else if stacks.want <= small as u64 {
        write::<{ STACK_CLASSES[0] }>(at, cpu_time, &stacks)
    } else if stacks.want <= middle as u64 {
        write::<{ STACK_CLASSES[1] }>(at, cpu_time, &stacks)
    } else {
        write::<{ STACK_CLASSES[2] }>(at, cpu_time, &stacks)
    };
    if written {
        // SAFETY: the current thread's own entry. Never less than before: the scheduler's program may have been interrupted
        // between its two stores.
        unsafe { (*state).reported = total.max(reported) };
    }
    0
}

/// Writes a sample with room for `N` bytes of stack. False: the ring was full, and the time goes to the next sample.
#[inline(always)]
fn write<const N: usize>(at: At, cpu_time: u64, stacks: &Stacks) -> bool {
    emit::sample(at, |record: *mut Sample<N>| {
        // SAFETY: a reserved record of this type.
        unsafe {
            let (stack_len, flags) = stack::copy(&raw mut (*record).stack, stacks.regs.sp, stacks.want);
            let head = &raw mut (*record).head;
            (*head).cpu_time = cpu_time;
            (*head).user_stack = stacks.user;
            (*head).kernel_stack = stacks.kernel;
            (*head).unmapped = stacks.unmapped;
            (*head).regs = stacks.regs;
            (*head).flags = stacks.flags | flags;
            (*head).stack_len = stack_len;
        }
    })
}
