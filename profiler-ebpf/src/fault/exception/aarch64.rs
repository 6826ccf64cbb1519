//! The function that serves all aborts. It runs with interrupts on, so its programs may be preempted and then skipped in another thread:
//! each has a twin, as those of `handle_mm_fault`.

use aya_ebpf::macros::fentry;
use aya_ebpf::programs::FEntryContext;
use profiler_common::abort;
use profiler_common::fault::{FAULT_EXCEPTION, FAULT_HANDLED, FAULT_OPEN, error_code};

use super::super::{STARTED, begin, current_faults, give_up, same_page};
use crate::emit::now;
use crate::kernel::Task;
use crate::preempt::Held;
use crate::scope;
use crate::twin::{self, Function};

/// Of these flags, a fault has the first two between its exception and its first attempt.
const BEGUN: u32 = FAULT_OPEN | FAULT_EXCEPTION | FAULT_HANDLED;

/// `do_mem_abort(unsigned long far, unsigned long esr, struct pt_regs *regs)` (arch/arm64/mm/fault.c).
#[fentry(function = "do_mem_abort")]
pub fn memory_abort(ctx: FEntryContext) -> i32 {
    if twin::is_handled(Function::Exception, ctx.arg(0)) {
        return 0;
    }
    aborted(&ctx)
}

/// Its twin, which runs first: the kernel begins with the program that was attached last.
#[fentry(function = "do_mem_abort")]
pub fn memory_abort_again(ctx: FEntryContext) -> i32 {
    twin::note(Function::Exception, ctx.arg(0));
    aborted(&ctx)
}

#[inline(always)]
fn aborted(ctx: &FEntryContext) -> i32 {
    let _held = Held::new();
    let (far, syndrome) = (ctx.arg::<u64>(0), ctx.arg::<u64>(1));
    if !abort::is_page_fault(far, syndrome) {
        return 0;
    }
    let Some(faults) = current_faults() else { return 0 };
    let code = abort::error_code(syndrome);
    let is_user = code & error_code::USER != 0;
    // An attempt that must not sleep is never handled; it fails at once. Our own reads of user memory are of this kind.
    if !is_user && Task::current().forbids_page_faults() {
        return 0;
    }
    let time = now();
    if !scope::is_within(time) {
        return 0;
    }
    let address = abort::address(far);
    // SAFETY: the current thread's own entry.
    unsafe {
        let fault = &raw const (*faults).inner.body;
        if (*fault).flags & BEGUN == FAULT_OPEN | FAULT_EXCEPTION
            && (*fault).error_code == code
            && same_page((*fault).address, address)
        {
            return 0; // seen by the first
        }
        if is_user {
            give_up(faults);
        }
        begin(faults, address, time, STARTED | FAULT_EXCEPTION, code);
    }
    0
}
