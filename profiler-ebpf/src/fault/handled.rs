//! Tier 1: the kernel's attempts to handle a fault, with the mapping at hand.

use core::ffi::c_void;

use aya_ebpf::macros::{fentry, fexit};
use aya_ebpf::programs::{FEntryContext, FExitContext};
use profiler_common::fault::{
    FAULT_EXCEPTION, FAULT_FAILED, FAULT_FILEMAP, FAULT_HANDLED, FAULT_HAS_VMA, FAULT_HUGE, FAULT_INSIDE, FAULT_MAJOR,
    FAULT_OPEN, FAULT_REMOTE, Pending, Waits, asked, error_code, returned,
};

use super::{STARTED, add_wait, begin, complete, current_fault, current_faults, same_page};
use crate::emit::now;
use crate::kernel::{Task, VmaStruct};
use crate::preempt::Held;
use crate::stack::{self, Place};
use crate::twin::{self, Function};
use crate::{cpu, scope};

/// `handle_mm_fault(struct vm_area_struct *vma, unsigned long address, unsigned int flags, struct pt_regs *regs)`: an
/// attempt begins. Everything is read here, because the mapping may be gone at the end.
#[fentry(function = "handle_mm_fault")]
pub fn fault_entry(ctx: FEntryContext) -> i32 {
    if twin::is_handled(Function::Entry, ctx.arg(1)) {
        return 0;
    }
    entered(&ctx)
}

/// Its twin, which runs first: the kernel begins with the program that was attached last.
#[fentry(function = "handle_mm_fault")]
pub fn fault_entry_again(ctx: FEntryContext) -> i32 {
    twin::note(Function::Entry, ctx.arg(1));
    entered(&ctx)
}

#[inline(always)]
fn entered(ctx: &FEntryContext) -> i32 {
    let _held = Held::new();
    let Some(faults) = current_faults() else { return 0 };
    let vma = VmaStruct::new(ctx.arg::<*const c_void>(0));
    let address = ctx.arg::<u64>(1);
    let flags = ctx.arg::<u32>(2);
    let time = now();
    if !scope::is_within(time) {
        return 0;
    }
    // SAFETY: the current thread's own entry.
    unsafe {
        let fault = &raw mut (*faults).inner;
        let known = (*fault).body.flags;
        if known & (FAULT_OPEN | FAULT_INSIDE) == FAULT_OPEN | FAULT_INSIDE && same_page((*fault).body.address, address)
        {
            return 0; // seen by the first
        }
        if known & (FAULT_OPEN | FAULT_INSIDE) != FAULT_OPEN || !same_page((*fault).body.address, address) {
            begin(faults, address, time, STARTED, 0);
        } else if known & FAULT_HANDLED == 0 {
            // The time since the exception went into getting here, so it counts as a wait for the lock.
            (*fault).out_since = 0;
            (*fault).body.waits = Waits {
                lock: time.saturating_sub((*fault).body.start),
                ..Waits::default()
            };
        } else {
            (*fault).body.waits.lock += time.saturating_sub((*fault).left);
        }
        if (*fault).body.flags & FAULT_HAS_VMA == 0 {
            (*fault).body.flags |= vma.describe(address, &raw mut (*fault).body.vma);
            (*fault).range = vma.range().into();
            if vma.is_of_another(Task::current()) {
                (*fault).body.flags |= FAULT_REMOTE;
                (*fault).mm = vma.mm_address();
            }
        }
        (*fault).body.asked |= flags;
        (*fault).body.flags |= FAULT_HANDLED | FAULT_INSIDE;
    }
    0
}

/// `filemap_fault(struct vm_fault *vmf)` returns: the page was not among those that fault-around found in memory.
#[fexit(function = "filemap_fault")]
pub fn filemap_exit(_: FExitContext) -> i32 {
    if let Some(fault) = current_fault() {
        // SAFETY: the current thread's own entry.
        unsafe { (*fault).body.flags |= FAULT_FILEMAP };
    }
    0
}

/// `do_huge_pmd_anonymous_page(struct vm_fault *vmf)` returns: with a huge page, with the huge zero page, or with the advice to use a
/// small one.
#[fexit(function = "do_huge_pmd_anonymous_page")]
pub fn huge_exit(ctx: FExitContext) -> i32 {
    let result = ctx.arg::<u32>(1);
    if result & (returned::ERROR | returned::RETRY) == 0
        && let Some(fault) = current_fault()
    {
        // SAFETY: the current thread's own entry.
        unsafe { (*fault).body.flags |= FAULT_HUGE };
    }
    0
}

/// `handle_mm_fault` returns: the fault is complete, or another attempt follows.
#[fexit(function = "handle_mm_fault")]
pub fn fault_exit(ctx: FExitContext) -> i32 {
    let is_over = ctx.arg::<u32>(4) & (returned::RETRY | returned::ERROR) == 0;
    if is_over && twin::is_handled(Function::Exit, ctx.arg(1)) {
        return 0;
    }
    left(&ctx)
}

/// As [`fault_entry_again`].
#[fexit(function = "handle_mm_fault")]
pub fn fault_exit_again(ctx: FExitContext) -> i32 {
    twin::note(Function::Exit, ctx.arg(1));
    left(&ctx)
}

#[inline(always)]
fn left(ctx: &FExitContext) -> i32 {
    let _held = Held::new();
    let Some(state) = scope::current_thread() else { return 0 };
    let flags = ctx.arg::<u32>(2);
    let result = ctx.arg::<u32>(4);
    // SAFETY: the current thread's own entry.
    let at = unsafe { scope::at(state, now()) };
    // SAFETY: the current thread's own entry.
    unsafe {
        let fault = &raw mut (*state).faults.inner;
        let is_inside = (*fault).body.flags & (FAULT_OPEN | FAULT_INSIDE) == FAULT_OPEN | FAULT_INSIDE;
        // Seen by the first, or begun before tracing did.
        if !is_inside || !same_page((*fault).body.address, ctx.arg::<u64>(1)) {
            return 0;
        }
        (*fault).body.flags &= !FAULT_INSIDE;
        (*fault).body.returned |= result;
        if (*fault).out_since != 0 {
            add_wait(fault, cpu::switched_in());
        }
        if result & returned::RETRY != 0 {
            (*fault).body.retries += 1;
            (*fault).left = at.time;
            return 0;
        }
        if result & returned::ERROR != 0 {
            (*fault).body.flags |= FAULT_FAILED;
        } else if result & returned::MAJOR != 0 || flags & asked::TRIED != 0 {
            (*fault).body.flags |= FAULT_MAJOR;
        }
        let task = Task::current();
        complete(ctx, task, at, state, false, || place(task, fault));
    }
    0
}

/// Where the current task was when it faulted.
///
/// # Safety
/// `fault` must be readable.
#[inline(always)]
unsafe fn place(task: Task, fault: *const Pending) -> Place {
    // SAFETY: by this function's own condition.
    unsafe {
        let code = if (*fault).body.flags & FAULT_EXCEPTION != 0 {
            (*fault).body.error_code
        } else if (*fault).body.asked & asked::USER != 0 {
            error_code::USER
        } else {
            0
        };
        stack::place_of_fault(task, code)
    }
}
