//! arm64: the registers in `struct pt_regs`, and system calls by the table of 64-bit programs.

pub mod table;

use core::ffi::c_void;

use aya_ebpf::bindings::user_pt_regs;
use profiler_common::stack::UserRegs;
use profiler_common::unwind::{Arch, Machine};

use crate::maps::config;
use crate::read::load;

/// The processor whose stacks are walked.
pub const ARCH: Arch = Arch::Aarch64;

/// The processor with its address space.
#[inline(always)]
pub fn machine() -> Machine {
    Machine {
        arch: ARCH,
        address: config!(address_mask),
    }
}

/// Binary logarithm of the page size.
#[inline(always)]
pub fn page_shift() -> u32 {
    config!(page_shift) & 63
}

/// The registers at the beginning of a perf event's context.
pub type Regs = user_pt_regs;

/// The registers with which a task entered the kernel: the part of `struct pt_regs` that is used here
/// (arch/arm64/include/asm/ptrace.h; the same from 5.15 to 7.3).
#[repr(C)]
pub struct TaskRegs {
    user: user_pt_regs,
    /// The call's first argument, whose register the result overwrites.
    orig_x0: u64,
    /// -1 in an exception or an interrupt.
    syscallno: i32,
}

/// `PSR_MODE_MASK`: the exception level, which is 0 in user mode.
const MODE: u64 = 0xf;
/// `PSR_MODE32_BIT`: a 32-bit program.
const MODE32: u64 = 0x10;
/// There are fewer system calls than this.
const CALLS: u32 = 512;

/// `execve` and `execveat` of include/uapi/asm-generic/unistd.h.
const SYS_EXECVE: u32 = 221;
const SYS_EXECVEAT: u32 = 281;

/// Calls that may populate memory, as above.
pub const SYS_MMAP: u32 = 222;
pub const SYS_MADVISE: u32 = 233;
pub const SYS_MLOCK: u32 = 228;
pub const SYS_MLOCK2: u32 = 284;
/// The call that most threads are woken by.
pub const SYS_FUTEX: u32 = 98;

/// Reads a register.
macro_rules! register {
    ($regs:expr, $($name:tt)+) => {
        core::ptr::read_volatile(&raw const (*$regs).$($name)+)
    };
}

/// The registers of a `pt_regs` that unwinding needs.
///
/// # Safety
/// The verifier must know `regs` as a pt_regs or as the context that starts with one.
#[inline(always)]
pub unsafe fn regs_of(regs: *const Regs) -> UserRegs {
    // SAFETY: by this function's own condition.
    unsafe {
        UserRegs {
            ip: register!(regs, pc),
            sp: register!(regs, sp),
            fp: register!(regs, regs[29]),
            lr: register!(regs, regs[30]),
        }
    }
}

/// Whether the CPU was in user mode.
///
/// # Safety
/// As [`regs_of`].
#[inline(always)]
pub unsafe fn in_user_mode(regs: *const Regs) -> bool {
    // SAFETY: by this function's own condition.
    unsafe { register!(regs, pstate) & MODE == 0 }
}

/// Number of the system call that a task with these registers is in; `None` in a 32-bit program, whose table is another. The second
/// argument is for other processors.
///
/// # Safety
/// The verifier must know `regs` as a pt_regs.
#[inline(always)]
pub unsafe fn call(regs: *const TaskRegs, _: impl FnOnce() -> Option<u32>) -> Option<u32> {
    // SAFETY: by this function's own condition.
    let (number, state) = unsafe { (register!(regs, syscallno) as u32, register!(regs, user.pstate)) };
    (state & MODE32 == 0 && number < CALLS).then_some(number)
}

/// Number of the system call, or one that no table has.
///
/// # Safety
/// As [`call`].
#[inline(always)]
pub unsafe fn call_number(regs: *const TaskRegs) -> u32 {
    // SAFETY: by this function's own condition.
    unsafe { register!(regs, syscallno) as u32 }
}

/// First argument of the system call.
///
/// # Safety
/// As [`call`].
#[inline(always)]
pub unsafe fn first_argument(regs: *const TaskRegs, _: u32) -> u64 {
    // SAFETY: by this function's own condition.
    unsafe { register!(regs, orig_x0) }
}

/// Writes the first arguments of the system call.
///
/// # Safety
/// As [`call`]; and `to` must be writable.
#[inline(always)]
pub unsafe fn arguments(regs: *const TaskRegs, call: u32, to: *mut [u64; 3]) {
    let to = to.cast::<u64>();
    // SAFETY: by this function's own condition.
    unsafe {
        to.write(first_argument(regs, call));
        to.add(1).write(register!(regs, user.regs[1]));
        to.add(2).write(register!(regs, user.regs[2]));
    }
}

/// The fourth to sixth argument of the system call.
///
/// # Safety
/// As [`call`].
#[inline(always)]
pub unsafe fn later_arguments(regs: *const TaskRegs) -> [u64; 3] {
    // SAFETY: by this function's own condition.
    unsafe {
        [
            register!(regs, user.regs[3]),
            register!(regs, user.regs[4]),
            register!(regs, user.regs[5]),
        ]
    }
}

/// Whether the system call executes another program.
#[inline(always)]
pub fn is_exec(call: u32) -> bool {
    matches!(call, SYS_EXECVE | SYS_EXECVEAT)
}

/// The `preempt_count` of this CPU, which is in its current task (`thread_info.preempt.count`).
#[inline(always)]
pub fn preempt_count(task: impl FnOnce() -> *const c_void) -> Option<u32> {
    load(task(), config!(preempt_count) as u32)
}
