//! The signals that may end a fault.

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use core::ffi::c_void;
use profiler_common::fault::FAULT_FAILED;

use super::{complete, is_open};
use crate::emit::now;
use crate::kernel::Task;
use crate::preempt::Held;
use crate::{scope, stack};

const SIGBUS: u32 = 7;
const SIGSEGV: u32 = 11;

/// `signal_generate(int sig, struct kernel_siginfo *info, struct task_struct *task, ...)`: the kernel refuses the access.
#[btf_tracepoint(function = "signal_generate")]
pub fn signal_generate(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let signal = ctx.arg::<u32>(0);
    if signal != SIGSEGV && signal != SIGBUS {
        return 0;
    }
    let task = Task::current();
    let Some(state) = scope::thread(task) else { return 0 };
    if Task::new(ctx.arg::<*const c_void>(2)).address() != task.address() {
        return 0;
    }
    // SAFETY: the current thread's own entry.
    unsafe {
        let fault = &raw mut (*state).faults.inner;
        if !is_open(&*fault) {
            return 0;
        }
        (*fault).body.signal = signal;
        (*fault).body.flags |= FAULT_FAILED;
        let place = stack::place_of_fault(task, (*fault).body.error_code);
        complete(&ctx, task, scope::at(state, now()), state, true, || place);
    }
    0
}
