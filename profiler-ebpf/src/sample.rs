//! sample: where a recorded thread is when the sampling event fires on its CPU.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;
use profiler_common::sample::{FLAG_IN_KERNEL, STACK_CLASSES, Sample};

use crate::emit::{self, At};
use crate::kernel::Task;
use crate::stack::Place;
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
    let place = stack::place(&ctx, Task::current());
    let cpu_time = total.saturating_sub(reported);
    let [small, middle, _] = STACK_CLASSES;
    let written = if place.want <= small as u64 {
        write::<{ STACK_CLASSES[0] }>(&ctx, at, cpu_time, &place)
    } else if place.want <= middle as u64 {
        write::<{ STACK_CLASSES[1] }>(&ctx, at, cpu_time, &place)
    } else {
        write::<{ STACK_CLASSES[2] }>(&ctx, at, cpu_time, &place)
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
fn write<const N: usize>(ctx: &PerfEventContext, at: At, cpu_time: u64, place: &Place) -> bool {
    emit::sample(at, |record: *mut Sample<N>| {
        // SAFETY: a reserved record of this type.
        unsafe {
            let kernel_frames = if place.flags & FLAG_IN_KERNEL != 0 {
                stack::kernel_frames(ctx, &raw mut (*record).kernel)
            } else {
                0
            };
            let (stack_len, flags) = stack::copy(&raw mut (*record).stack, place.regs.sp, place.want);
            let head = &raw mut (*record).head;
            (*head).cpu_time = cpu_time;
            (*head).regs = place.regs;
            (*head).flags = place.flags | flags;
            (*head).kernel_frames = kernel_frames;
            (*head).stack_len = stack_len;
            (*head).pad = 0;
        }
    })
}
