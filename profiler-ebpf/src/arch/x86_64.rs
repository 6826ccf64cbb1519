//! x86-64: the registers in `struct pt_regs`, and system calls by the tables of 64-bit programs, i386 and x32.

pub mod table;

use core::ffi::c_void;

use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::bpf_get_smp_processor_id;
use profiler_common::stack::UserRegs;
use profiler_common::switch::CALL_I386;
use profiler_common::unwind::{Arch, link_of_bx};

use crate::maps::config;
use crate::read::probe;

/// The processor whose stacks are walked.
pub const ARCH: Arch = Arch::X86_64;

/// The processor with its address space.
#[inline(always)]
pub fn machine() -> Arch {
    ARCH
}

/// Binary logarithm of the page size.
#[inline(always)]
pub fn page_shift() -> u32 {
    12
}

/// The registers at the beginning of a perf event's context.
pub type Regs = pt_regs;
/// The registers with which a task entered the kernel.
pub type TaskRegs = pt_regs;

/// There are fewer system calls than this.
const CALLS: u64 = 512;
/// `TS_COMPAT` of arch/x86/include/asm/thread_info.h: in a system call of the i386 table, whatever the program's own mode is.
const TS_COMPAT: u32 = 2;
/// `__X32_SYSCALL_BIT` of arch/x86/include/uapi/asm/unistd.h: x32 uses the x86-64 table, except for calls from 512 on.
const X32: u64 = 1 << 30;

/// `execve` and `execveat` of arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl.
const SYS_EXECVE: u32 = 59;
const SYS_EXECVEAT: u32 = 322;
const I386_EXECVE: u32 = 11 | CALL_I386;
const I386_EXECVEAT: u32 = 358 | CALL_I386;

/// Calls of 64-bit programs that may populate memory (syscall_64.tbl).
pub const SYS_MMAP: u32 = 9;
pub const SYS_MADVISE: u32 = 28;
pub const SYS_MLOCK: u32 = 149;
pub const SYS_MLOCK2: u32 = 325;
/// The call that most threads are woken by.
pub const SYS_FUTEX: u32 = 202;

/// Reads a register.
macro_rules! register {
    ($regs:expr, $name:ident) => {
        core::ptr::read_volatile(&raw const (*$regs).$name)
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
            ip: register!(regs, rip),
            sp: register!(regs, rsp),
            fp: register!(regs, rbp),
            lr: link_of_bx(register!(regs, rbx)),
        }
    }
}

/// Whether the CPU was in user mode: the code segment's privilege level.
///
/// # Safety
/// As [`regs_of`].
#[inline(always)]
pub unsafe fn in_user_mode(regs: *const Regs) -> bool {
    // SAFETY: by this function's own condition.
    unsafe { register!(regs, cs) & 3 != 0 }
}

/// Number of the system call that a task with these registers is in, with [`CALL_I386`] where it applies; `status`: its
/// `thread_info.status`.
///
/// # Safety
/// As [`regs_of`].
#[inline(always)]
pub unsafe fn call(regs: *const TaskRegs, status: impl FnOnce() -> Option<u32>) -> Option<u32> {
    // SAFETY: by this function's own condition.
    let number = unsafe { register!(regs, orig_rax) };
    let is_i386 = status()? & TS_COMPAT != 0;
    let (number, table) = if is_i386 {
        (number, CALL_I386)
    } else {
        (number & !X32, 0)
    };
    // An exception or an interrupt stores a negative number there.
    (number < CALLS).then_some(number as u32 | table)
}

/// Number of the system call in its table, or one that no table has.
///
/// # Safety
/// As [`regs_of`].
#[inline(always)]
pub unsafe fn call_number(regs: *const TaskRegs) -> u32 {
    // SAFETY: by this function's own condition.
    unsafe { (register!(regs, orig_rax) & !X32) as u32 }
}

/// First argument of the system call.
///
/// # Safety
/// As [`regs_of`].
#[inline(always)]
pub unsafe fn first_argument(regs: *const TaskRegs, call: u32) -> u64 {
    // SAFETY: by this function's own condition.
    unsafe {
        if call & CALL_I386 == 0 {
            register!(regs, rdi)
        } else {
            register!(regs, rbx)
        }
    }
}

/// Writes the first arguments of the system call.
///
/// # Safety
/// As [`regs_of`]; and `to` must be writable.
#[inline(always)]
pub unsafe fn arguments(regs: *const TaskRegs, call: u32, to: *mut [u64; 3]) {
    let to = to.cast::<u64>();
    // SAFETY: by this function's own condition.
    unsafe {
        to.write(first_argument(regs, call));
        if call & CALL_I386 == 0 {
            to.add(1).write(register!(regs, rsi));
        } else {
            to.add(1).write(register!(regs, rcx));
        }
        to.add(2).write(register!(regs, rdx));
    }
}

/// The fourth to sixth argument of the system call, of a 64-bit program.
///
/// # Safety
/// As [`regs_of`].
#[inline(always)]
pub unsafe fn later_arguments(regs: *const TaskRegs) -> [u64; 3] {
    // SAFETY: by this function's own condition.
    unsafe { [register!(regs, r10), register!(regs, r8), register!(regs, r9)] }
}

/// Whether the system call executes another program.
#[inline(always)]
pub fn is_exec(call: u32) -> bool {
    matches!(call, SYS_EXECVE | SYS_EXECVEAT | I386_EXECVE | I386_EXECVEAT)
}

/// The `preempt_count` of this CPU, a variable per CPU; `None`: the kernel does not show it. On other processors the task
/// has it.
#[inline(always)]
pub fn preempt_count(task: impl FnOnce() -> *const c_void) -> Option<u32> {
    if config!(kernel_array) == 0 {
        // The current task's run queue is this CPU's, which is another such variable.
        let group: u64 = probe(task() as u64, config!(task_cfs_rq))?;
        let queue = probe(group, config!(cfs_rq_rq)).filter(|queue: &u64| *queue != 0)?;
        return probe(config!(preempt_count).wrapping_add(queue), 0);
    }
    // SAFETY: the helper has no preconditions.
    let cpu = u64::from(unsafe { bpf_get_smp_processor_id() } as u32);
    let offset: u64 = probe(config!(kernel_array).wrapping_add(cpu * 8), 0)?;
    probe(config!(preempt_count).wrapping_add(offset), 0)
}
