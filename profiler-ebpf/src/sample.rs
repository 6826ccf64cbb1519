//! sample: where a recorded thread is when the sampling event fires on its CPU.

use aya_ebpf::macros::perf_event;
use aya_ebpf::programs::PerfEventContext;
use profiler_common::sample::SampleHead;
use profiler_common::stack::REPRESENTS_SHIFT;
use profiler_common::thinning::Group;
use profiler_common::{Loss, RecordKind};

use crate::emit::{self, lose_many, now};
use crate::kernel::Task;
use crate::{cpu, scope, stack, thinning};

/// Runs on each CPU at the sampling rate, whatever thread is running.
#[perf_event]
pub fn sample(ctx: PerfEventContext) -> u32 {
    let task = Task::current();
    let Some(state) = scope::thread(task) else {
        return 0;
    };
    let level = thinning::level(Group::Sample);
    if !thinning::is_chosen(level) {
        return 0;
    }
    // SAFETY: the current thread's own entry.
    let at = unsafe { scope::at(state, now()) };
    if !scope::is_within(at.time) {
        return 0;
    }
    // SAFETY: as above.
    let (total, reported) = unsafe { (cpu::on_cpu_time(state, at.time), (*state).reported) };
    let place = stack::place(&ctx, task);
    // SAFETY: as above.
    let mut captured = stack::stacks(&ctx, at, unsafe { (*state).space }, &place, stack::Copies::Whole);
    captured.stacks.flags |= level << REPRESENTS_SHIFT;
    let cpu_time = total.saturating_sub(reported);
    let written = emit::stacked(RecordKind::Sample, at, &captured, |head: *mut SampleHead| {
        // SAFETY: a reserved record's head.
        unsafe { (*head).cpu_time = cpu_time };
    });
    if written {
        // SAFETY: the current thread's own entry. Never less than before: the scheduler's program may have been interrupted
        // between its two stores.
        unsafe { (*state).reported = total.max(reported) };
    } else {
        lose_many(Loss::SampleRingFull, 1 << level);
    }
    thinning::spend(Group::Sample, at.time);
    0
}
