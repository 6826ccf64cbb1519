//! The stacks of a sample: kernel frames, user registers and a bounded copy of the user stack.
//!
//! The copy is the seam: a walker over unwind tables will take its place, and the rest of a sample stays as it is.

use core::ffi::c_void;

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::generated::{bpf_get_stack, bpf_probe_read_user};
use aya_ebpf::programs::PerfEventContext;
use profiler_common::sample::{
    FLAG_IN_KERNEL, FLAG_STACK_CUT, FLAG_STACK_STOPPED, FLAG_STACK_UNREADABLE, FLAG_USER_REGS, MAX_KERNEL_FRAMES,
    UserRegs,
};

use crate::kernel::{self, Task};
use crate::maps::config;

const PAGE: u64 = 4096;
/// A stack's top is believed if it is at most this far away: the largest stack size that is in common use.
const STACK_REACH: u64 = 64 << 20;
/// Beyond a known top lies what the outermost frame's rule may still want: the return address and the argument count.
const BEYOND_TOP: u64 = 64;

/// Where the thread was, and what of its user stack is worth copying.
pub struct Place {
    pub regs: UserRegs,
    /// `FLAG_USER_REGS`, `FLAG_IN_KERNEL` and `FLAG_STACK_CUT` as they apply.
    pub flags: u32,
    /// Bytes to copy from `regs.sp` upward.
    pub want: u64,
}

/// Looks at the registers of the current task.
#[inline(always)]
pub fn place(ctx: &PerfEventContext, task: Task) -> Place {
    let regs = ctx.as_ptr().cast_const().cast::<pt_regs>();
    // SAFETY: a perf event's context starts with the interrupted registers.
    if unsafe { kernel::in_user_mode(regs) } {
        // SAFETY: as above.
        return user_place(task, unsafe { kernel::regs_of(regs) }, 0);
    }
    if task.is_kernel_thread() || task.has_no_address_space() {
        return Place {
            regs: UserRegs::default(),
            flags: FLAG_IN_KERNEL,
            want: 0,
        };
    }
    user_place(task, task.user_regs(), FLAG_IN_KERNEL)
}

#[inline(always)]
fn user_place(task: Task, regs: UserRegs, flags: u32) -> Place {
    if regs.sp == 0 {
        // A worker of io_uring: born by a process, but it never was in user mode (copy_thread in arch/x86/kernel/process.c).
        return Place { regs, flags, want: 0 };
    }
    let limit = u64::from(config!(stack_copy));
    let size = match top(task, regs.sp) {
        Some(top) => top - regs.sp + BEYOND_TOP,
        None => u64::MAX,
    };
    let cut = if limit != 0 && size > limit { FLAG_STACK_CUT } else { 0 };
    Place {
        regs,
        flags: flags | FLAG_USER_REGS | cut,
        want: size.min(limit),
    }
}

/// Where the stack that `sp` is on ends at the latest: the place of `argc` for the main thread; the thread control
/// block, which glibc and musl put on top of a thread's stack, for the others.
#[inline(always)]
fn top(task: Task, sp: u64) -> Option<u64> {
    let main = task.mm().and_then(|mm| mm.start_stack()).unwrap_or(0);
    if within_reach(sp, main) {
        return Some(main);
    }
    let control_block = task.fsbase().unwrap_or(0);
    within_reach(sp, control_block).then_some(control_block)
}

#[inline(always)]
fn within_reach(sp: u64, top: u64) -> bool {
    top.wrapping_sub(sp) < STACK_REACH
}

/// Writes the kernel's frames, leaf first, and returns how many.
///
/// # Safety
/// `to` must be writable.
#[inline(always)]
pub unsafe fn kernel_frames(ctx: &PerfEventContext, to: *mut [u64; MAX_KERNEL_FRAMES]) -> u32 {
    const SIZE: u32 = (MAX_KERNEL_FRAMES * 8) as u32;
    // SAFETY: the helper writes at most the buffer's size.
    let bytes = unsafe { bpf_get_stack(ctx.as_ptr(), to.cast(), SIZE, 0) };
    if bytes > 0 { bytes as u32 / 8 } else { 0 }
}

/// Copies at most `want` bytes of the user stack and returns how many, with the flags that tell why fewer.
///
/// # Safety
/// `to` must be writable.
#[inline(always)]
pub unsafe fn copy<const N: usize>(to: *mut [u8; N], sp: u64, want: u64) -> (u32, u32) {
    let want = want.min(N as u64);
    if want == 0 {
        return (0, 0);
    }
    // SAFETY: `want` is at most the buffer's size.
    if unsafe { read(to.cast(), want, sp) } {
        return (want as u32, 0);
    }
    // SAFETY: as above.
    let copied = unsafe { copy_pages(to, sp, want) };
    (
        copied,
        if copied == 0 {
            FLAG_STACK_UNREADABLE
        } else {
            FLAG_STACK_STOPPED
        },
    )
}

/// Copies page by page up to the first one that can't be read: a read of many pages is all or nothing.
///
/// # Safety
/// `to` must be writable.
#[inline(always)]
unsafe fn copy_pages<const N: usize>(to: *mut [u8; N], sp: u64, want: u64) -> u32 {
    let to = to.cast::<u8>();
    let first = PAGE - (sp & (PAGE - 1));
    // SAFETY: a page is at most the buffer's size.
    if !unsafe { read(to, first, sp) } {
        return 0;
    }
    let mut copied = first;
    for _ in 1..N as u64 / PAGE {
        let room = N as u64 - PAGE;
        // SAFETY: the offset leaves room for a page.
        if copied >= want || copied > room || !unsafe { read(to.add(copied.min(room) as usize), PAGE, sp + copied) } {
            break;
        }
        copied += PAGE;
    }
    copied.min(want) as u32
}

/// # Safety
/// `to` must have room for `len` bytes.
#[inline(always)]
unsafe fn read(to: *mut u8, len: u64, from: u64) -> bool {
    // SAFETY: by this function's own condition; the helper refuses user addresses that can't be read.
    unsafe { bpf_probe_read_user(to.cast(), len as u32, from as *const c_void) == 0 }
}
