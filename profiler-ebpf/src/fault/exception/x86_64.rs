//! The tracepoints of page faults. Exceptions occur with interrupts off (`handle_page_fault` in arch/x86/mm/fault.c), so
//! their programs are never preempted.

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::fault::FAULT_EXCEPTION;

use super::super::{STARTED, begin, current_faults, give_up};
use crate::emit::now;
use crate::kernel::Task;
use crate::scope;

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
