//! The processor's exceptions, and the signals that may end a fault.
//!
//! Exceptions occur with interrupts off (`handle_page_fault` in arch/x86/mm/fault.c), so their programs are never preempted.

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use core::ffi::c_void;
use profiler_common::fault::{FAULT_EXCEPTION, FAULT_FAILED};

use super::{STARTED, begin, complete, current_faults, give_up, is_open};
use crate::emit::now;
use crate::kernel::Task;
use crate::preempt::Held;
use crate::{scope, stack};

const SIGBUS: u32 = 7;
const SIGSEGV: u32 = 11;

/// `page_fault_user(unsigned long address, struct pt_regs *regs, unsigned long error_code)`: no other fault can be under way.
#[btf_tracepoint(function = "page_fault_user")]
pub fn page_fault_user(ctx: BtfTracePointContext) -> i32 {
    let Some(faults) = current_faults() else { return 0 };
    let time = now();
    if !scope::is_within(time) {
        return 0;
    }
    // SAFETY: the current thread's own entry.
    unsafe {
        give_up(faults);
        begin(
            faults,
            ctx.arg::<u64>(0),
            time,
            STARTED | FAULT_EXCEPTION,
            ctx.arg::<u64>(2) as u32,
        );
    }
    0
}

/// `page_fault_kernel(...)`, as above: the kernel touched user memory, maybe within another fault.
#[btf_tracepoint(function = "page_fault_kernel")]
pub fn page_fault_kernel(ctx: BtfTracePointContext) -> i32 {
    let Some(faults) = current_faults() else { return 0 };
    // An attempt that must not sleep is never handled; it fails at once. Our own reads of user memory are of this kind.
    if Task::current().forbids_page_faults() {
        return 0;
    }
    let time = now();
    if !scope::is_within(time) {
        return 0;
    }
    // SAFETY: the current thread's own entry.
    unsafe {
        begin(
            faults,
            ctx.arg::<u64>(0),
            time,
            STARTED | FAULT_EXCEPTION,
            ctx.arg::<u64>(2) as u32,
        );
    }
    0
}

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
        complete(&ctx, task, scope::at(state, now()), state, &place);
    }
    0
}
