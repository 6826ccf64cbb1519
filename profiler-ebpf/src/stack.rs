//! The stacks of an event: kernel frames, the user stack as far as the walker gets, and a bounded copy of the rest.

use aya_ebpf::EbpfContext;
use aya_ebpf::programs::PerfEventContext;
use profiler_common::Loss;
use profiler_common::fault::error_code;
pub use profiler_common::stack::Stacks as Record;
use profiler_common::stack::{
    FLAG_CALLER, FLAG_CHECK, FLAG_IN_KERNEL, FLAG_STACK_CUT, FLAG_THINNED, FLAG_USER_REGS, FLAG_WALK_COMPLETE,
    STACK_CLASSES, UserRegs,
};
use profiler_common::unwind::WalkEnd;

use crate::copy::{self, Captured};
use crate::emit::{self, At, lose};
use crate::kernel::Task;
use crate::maps::{config, volatile};
use crate::{arch, intern, walk};

/// A stack's top is plausible if it is at most this far away: the largest stack size in common use.
const STACK_REACH: u64 = 64 << 20;
/// Bytes beyond a known top that the outermost frame's rule may still need: the return address and the argument count.
const BEYOND_TOP: u64 = 64;

/// Where a thread was: its registers and mode.
pub struct Place {
    /// User registers.
    pub regs: UserRegs,
    /// `FLAG_USER_REGS` and `FLAG_IN_KERNEL` as they apply.
    pub flags: u32,
}

/// How much is copied of a stack that can't be walked to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// Nothing.
    Nothing,
    /// As much as the recording allows.
    Whole,
    /// The same, but less the fuller the ring is: such events occur in bursts.
    GiveWay,
}

/// The registers and mode of the current task at a perf event.
#[inline(always)]
pub fn place(ctx: &PerfEventContext, task: Task) -> Place {
    let regs = ctx.as_ptr().cast_const().cast::<arch::Regs>();
    // SAFETY: a perf event's context starts with the interrupted registers.
    let (in_user_mode, regs) = unsafe { (arch::in_user_mode(regs), arch::regs_of(regs)) };
    if in_user_mode {
        return Place {
            regs,
            flags: FLAG_USER_REGS,
        };
    }
    place_in_kernel(task)
}

/// The registers and mode of the current task while it runs in the kernel.
#[inline(always)]
pub fn place_in_kernel(task: Task) -> Place {
    if task.is_kernel_thread() || task.has_no_address_space() {
        return nowhere();
    }
    let regs = task.user_regs();
    // Without user registers: an io_uring worker, which a process creates but which never was in user mode (copy_thread in arch/x86/kernel/process.c), and
    // a process whose stack was replaced by that of another program.
    let none = regs.sp == 0 || (task.executes() && !is_readable(regs.sp));
    let valid = if none { 0 } else { FLAG_USER_REGS };
    Place {
        regs,
        flags: FLAG_IN_KERNEL | valid,
    }
}

/// In the kernel, without a path to user space.
#[inline(always)]
pub fn nowhere() -> Place {
    Place {
        regs: UserRegs::default(),
        flags: FLAG_IN_KERNEL,
    }
}

/// Where the current task was when it faulted: in user mode, or in the kernel on behalf of a system call.
#[inline(always)]
pub fn place_of_fault(task: Task, code: u32) -> Place {
    let regs = task.user_regs();
    let valid = if regs.sp == 0 || task.is_kernel_thread() {
        0
    } else {
        FLAG_USER_REGS
    };
    let mode = if code & error_code::USER != 0 {
        0
    } else {
        FLAG_IN_KERNEL
    };
    Place {
        regs,
        flags: valid | mode,
    }
}

/// Walks the stacks of the current task, and returns them with what the walk left to be copied.
#[inline(always)]
pub fn stacks(ctx: &impl EbpfContext, at: At, space: u64, place: &Place, copies: Copies) -> Captured {
    let mut stacks = Record::default();
    // SAFETY: a record of our own.
    let want = unsafe { stacks_to(&raw mut stacks, ctx, at, space, place, copies) };
    Captured { stacks, want }
}

/// As [`stacks`], but writes the stacks to their final place: a program's own stack is small. Returns the bytes to copy.
///
/// # Safety
/// `to` must be writable.
#[inline(always)]
pub unsafe fn stacks_to(
    to: *mut Record,
    ctx: &impl EbpfContext,
    at: At,
    space: u64,
    place: &Place,
    copies: Copies,
) -> u64 {
    // SAFETY: by this function's own condition; the walk is ours until it is released.
    unsafe {
        ((*to).user, (*to).kernel, (*to).unmapped) = (0, 0, 0);
        ((*to).regs, (*to).flags, (*to).copied) = (place.regs, place.flags, 0);
        let Some(walk) = walk::acquire() else {
            lose(Loss::WalkerBusy);
            return 0;
        };
        let mut is_part = false;
        if place.flags & FLAG_IN_KERNEL != 0 {
            (*to).kernel = intern::kernel_stack(walk, ctx, at);
        }
        if place.flags & FLAG_USER_REGS != 0 {
            let walked = walk::user_stack(walk, space, place.regs);
            (*to).user = intern::user_stack(walk, at);
            (*to).unmapped = walked.unmapped;
            if walked.end == WalkEnd::Complete as u32 {
                (*to).flags |= FLAG_WALK_COMPLETE;
            }
            // The innermost frames are enough of a stack that is too deep.
            is_part = walked.end != WalkEnd::Complete as u32 && walked.end != WalkEnd::Limit as u32;
            if config!(check_walks) != 0 {
                is_part = true;
                (*to).flags |= FLAG_CHECK;
            } else {
                (*to).regs = walked.regs;
                (*to).flags |= if walked.caller { FLAG_CALLER } else { 0 };
            }
        }
        walk::release(walk);
        if !is_part || copies == Copies::Nothing {
            return 0;
        }
        let Some(limit) = limit(copies) else {
            (*to).flags |= FLAG_STACK_CUT;
            return 0;
        };
        let sp = (*to).regs.sp;
        let size = match top_of_stack(sp) {
            0 => u64::MAX,
            top => top.wrapping_sub(sp).wrapping_add(BEYOND_TOP),
        };
        (*to).flags |= if limit != 0 && size > limit { FLAG_STACK_CUT } else { 0 };
        size.min(limit)
    }
}

/// Takes only the innermost frame.
///
/// # Safety
/// `to` must be writable.
#[inline(always)]
pub unsafe fn innermost_to(to: *mut Record, place: &Place) {
    // SAFETY: by this function's own condition.
    unsafe {
        *to = Record {
            regs: place.regs,
            flags: place.flags | FLAG_THINNED,
            ..Record::default()
        };
    }
}

/// Bytes to copy at most. `None`: the ring is half full, and the rest is kept for events without copies: a cut stack is a smaller
/// loss than an event.
#[inline(always)]
fn limit(copies: Copies) -> Option<u64> {
    let most = u64::from(config!(stack_copy));
    if config!(check_walks) != 0 {
        return Some(most);
    }
    let (held, size) = emit::held();
    if held * 2 > size {
        return None;
    }
    let room = if copies == Copies::Whole || held * 8 <= size {
        most
    } else if held * 4 <= size {
        STACK_CLASSES[1] as u64
    } else {
        STACK_CLASSES[0] as u64
    };
    // Unknown to the verifier, which would otherwise follow each value to the end.
    Some(volatile(&room).min(most))
}

#[inline(always)]
fn is_readable(address: u64) -> bool {
    let mut word = 0_u64;
    // SAFETY: a word's size.
    unsafe { copy::read((&raw mut word).cast(), 8, address) }
}

/// The latest possible end of the current task's stack that contains `sp`: the place of `argc` for the main thread; the
/// thread control block, which glibc and musl put at the top of a thread's stack, for the others. 0: unknown.
///
/// Exported, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn top_of_stack(sp: u64) -> u64 {
    let task = Task::current();
    let main = task.start_stack().unwrap_or(0);
    if within_reach(sp, main) {
        return main;
    }
    let control_block = task.fsbase().unwrap_or(0);
    if within_reach(sp, control_block) {
        control_block
    } else {
        0
    }
}

#[inline(always)]
fn within_reach(sp: u64, top: u64) -> bool {
    top.wrapping_sub(sp) < STACK_REACH
}
