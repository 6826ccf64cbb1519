//! Every kernel struct field that the programs read, through the offsets of the running kernel.
//!
//! The order follows `Config`. Pointers are tracepoint arguments or from
//! `bpf_get_current_task_btf`, so the verifier knows their types and turns a bad load into a zero.

mod belonging;
mod disk;
mod locks;
mod memory;
mod number;
mod open;

use core::ffi::c_void;

use aya_ebpf::bindings::task_struct;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use aya_ebpf::helpers::{bpf_get_current_task_btf, bpf_task_pt_regs};
use profiler_common::config::MISSING;
use profiler_common::stack::UserRegs;
use profiler_common::task::COMM_LEN;

pub use belonging::Cgroup;
pub use disk::{Bio, Pages, Request};
pub use locks::{Owner, owner};
pub use memory::{Folio, Mm, RememberedVma, Seen, VmaBytes, VmaStruct, locks_new_mappings, mappings, top_table};
pub use number::current_ids;
pub use open::{DEPTH, Dentry, Inode, has_name, is_block_device};

use crate::arch::{self, TaskRegs};
use crate::maps::config;
use crate::read::{load, probe};

/// In `preempt_count` (include/linux/preempt.h): non-maskable and hard interrupts, and a soft one that is being served.
const INTERRUPTED: u32 = 0x00ff_0100;

/// `PF_KTHREAD` of include/linux/sched.h: a kernel thread, which has no user registers.
const PF_KTHREAD: u32 = 0x0020_0000;
/// `PF_EXITING` of include/linux/sched.h: it will not return to user space.
const PF_EXITING: u32 = 0x4;
/// `MAX_RT_PRIO` of include/linux/sched/prio.h: lower numbers are of real-time and deadline threads.
const MAX_RT_PRIO: u32 = 100;
/// `TASK_DEAD` of include/linux/sched.h: the task is switched out for the last time.
const TASK_DEAD: u32 = 0x80;

/// `SUID_DUMP_USER` of include/linux/sched/coredump.h; from 7.2 on `TASK_DUMPABLE_OWNER`.
const DUMPABLE_BY_OWNER: u32 = 1;

/// `struct task_struct *`
#[derive(Clone, Copy)]
pub struct Task(*const c_void);

/// `struct linux_binprm *`
#[derive(Clone, Copy)]
pub struct Binprm(*const c_void);

/// Defines methods that load a field, with 0 where this kernel has no such field.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $Type:ty = $field:ident;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name(self) -> $Type {
                load(self.0, config!($field)).unwrap_or(0)
            }
        )*
    };
}
use fields;

/// Whether this CPU serves an interrupt; `None`: the kernel does not show it.
#[inline(always)]
pub fn in_interrupt() -> Option<bool> {
    if config!(preempt_count) == 0 {
        return None;
    }
    let count = arch::preempt_count(|| Task::current().0)?;
    Some(count & INTERRUPTED != 0)
}

impl Task {
    /// From a tracepoint's argument.
    #[inline(always)]
    pub fn new(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    #[inline(always)]
    pub fn current() -> Self {
        // SAFETY: the helper has no preconditions.
        Self(unsafe { bpf_get_current_task_btf() }.cast_const().cast())
    }

    fields! {
        exit_code: u32 = task_exit_code;
        minor_faults: u64 = task_min_flt;
        major_faults: u64 = task_maj_flt;
        sum_exec_runtime: u64 = task_sum_exec_runtime;
        /// `TASK_*`
        state: u32 = task_state;
    }

    /// Address of the name, for `bpf_probe_read_kernel`.
    #[inline(always)]
    pub fn comm(self) -> Option<*const [u8; COMM_LEN]> {
        let offset = config!(task_comm);
        // SAFETY: only an address is computed, inside the task_struct.
        (offset != MISSING).then(|| unsafe { self.0.byte_add(offset as usize) }.cast())
    }

    /// Copies the name, or zeroes where it can't be read.
    ///
    /// # Safety
    /// `to` must be writable.
    #[inline(always)]
    pub unsafe fn copy_comm(self, to: *mut [u8; COMM_LEN]) {
        // SAFETY: the helper writes the whole buffer, zeroes when it can't read.
        unsafe {
            match self.comm() {
                Some(comm) => {
                    bpf_probe_read_kernel(to.cast(), COMM_LEN as u32, comm.cast());
                }
                None => to.write([0; COMM_LEN]),
            }
        }
    }

    /// The name as two words.
    #[inline(always)]
    pub fn name_words(self) -> [u64; COMM_LEN / 8] {
        let at = config!(task_comm);
        [
            load(self.0, at).unwrap_or(0),
            load(self.0, at.wrapping_add(8)).unwrap_or(0),
        ]
    }

    /// How often the thread was switched out (`nvcsw` and `nivcsw`), counted before the tracepoint reports it.
    #[inline(always)]
    pub fn switches(self) -> Option<u64> {
        let willing: u64 = load(self.0, config!(task_nvcsw))?;
        let unwilling: u64 = load(self.0, config!(task_nivcsw))?;
        Some(willing + unwilling)
    }

    /// The address space; `None` for a kernel thread and for a thread that has given it up.
    #[inline(always)]
    pub fn mm(self) -> Option<Mm> {
        let mm: *const c_void = load(self.0, config!(task_mm))?;
        (!mm.is_null()).then_some(Mm(mm))
    }

    /// Address of its `mm_struct`, 0 as for [`Self::mm`]; `None` where the kernel does not show it.
    #[inline(always)]
    pub fn mm_address(self) -> Option<u64> {
        probe(self.address(), config!(task_mm))
    }

    /// As [`Self::mm_address`]; `None`: it has none, or the kernel does not show it.
    #[inline(always)]
    pub fn own_mm(self) -> Option<u64> {
        self.mm_address().filter(|&mm| mm != 0)
    }

    /// Where the main thread's stack began: `argc` is here.
    #[inline(always)]
    pub fn start_stack(self) -> Option<u64> {
        probe(self.mm_address()?, config!(mm_start_stack))
    }

    /// Address of its address space's `mmap_lock`.
    #[inline(always)]
    pub fn mmap_lock(self) -> Option<u64> {
        let (mm, offset) = (self.mm_address()?, config!(mm_mmap_lock));
        (mm != 0 && offset != MISSING).then(|| mm.wrapping_add(u64::from(offset)))
    }

    /// An exiting thread whose address space is gone (`exit_mm`); false where the kernel does not show it.
    #[inline(always)]
    pub fn has_no_address_space(self) -> bool {
        self.flags() & PF_EXITING != 0 && self.mm_address() == Some(0)
    }

    /// Its user may not inspect it (`get_dumpable`, in include/linux/sched/coredump.h): it has other rights, its file is unreadable, or it requested this.
    /// A thread without an address space has nothing to hide.
    #[inline(always)]
    pub fn is_hidden(self) -> bool {
        let Some(mm) = self.mm() else { return false };
        let state: Option<*const c_void> = load(self.0, config!(task_exec_state));
        let dumpable = match state {
            Some(state) if state.is_null() => return false,
            Some(state) => load(state, config!(exec_state_dumpable)),
            None => mm.dumpable(),
        };
        dumpable.is_some_and(|dumpable: u32| dumpable != DUMPABLE_BY_OWNER)
    }

    /// Its cgroup has used up its CPU quota, and it does not run until there is more (`throttle_cfs_rq` in kernel/sched/fair.c). Since 6.18 a thread that runs
    /// in the kernel is not held up.
    #[inline(always)]
    pub fn is_throttled(self) -> bool {
        if let Some(throttled) = load::<u8>(self.0, config!(task_throttled)) {
            return throttled != 0;
        }
        if load::<u32>(self.0, config!(task_prio)).unwrap_or(0) < MAX_RT_PRIO {
            return false; // the quota does not concern it
        }
        self.cfs_rq()
            .is_some_and(|queue| probe::<u32>(queue, config!(cfs_rq_throttle_count)).unwrap_or(0) != 0)
    }

    /// The run queue of its cgroup on its CPU, and for how long all in all that had no CPU quota, in ns; 0: the kernel does not show it.
    #[inline(always)]
    pub fn throttled_time(self) -> (u64, u64) {
        let Some(queue) = self.cfs_rq() else { return (0, 0) };
        (queue, probe(queue, config!(cfs_rq_throttled_time)).unwrap_or(0))
    }

    /// Its scheduling priority: lower numbers run first. `None`: the kernel does not show it.
    #[inline(always)]
    pub fn priority(self) -> Option<i32> {
        load(self.0, config!(task_prio))
    }

    #[inline(always)]
    fn cfs_rq(self) -> Option<u64> {
        probe(self.address(), config!(task_cfs_rq)).filter(|queue| *queue != 0)
    }

    #[inline(always)]
    pub fn is_kernel_thread(self) -> bool {
        self.flags() & PF_KTHREAD != 0
    }

    /// `PF_*`
    #[inline(always)]
    fn flags(self) -> u32 {
        load(self.0, config!(task_flags)).unwrap_or(0)
    }

    /// The thread control block's address, as of the last switch-out (user space changes it once in a thread's lifetime).
    #[inline(always)]
    pub fn fsbase(self) -> Option<u64> {
        load(self.0, config!(task_fsbase))
    }

    /// Number of the system call that the task is in, with [`CALL_I386`] where it applies. Also `None` in a call that only x32 has.
    ///
    /// [`CALL_I386`]: profiler_common::switch::CALL_I386
    #[inline(always)]
    pub fn call(self) -> Option<u32> {
        if self.is_kernel_thread() {
            return None;
        }
        // SAFETY: the verifier knows the helper's result as a pt_regs.
        unsafe { arch::call(self.pt_regs(), || load(self.0, config!(task_status))) }
    }

    /// Whether the number of the system call is one of these, in any table: a few instructions, for hooks that run often. False in an exception or an interrupt.
    #[inline(always)]
    pub fn may_be_in(self, calls: &[u32]) -> bool {
        // SAFETY: as above.
        let number = unsafe { arch::call_number(self.pt_regs()) };
        calls.contains(&number)
    }

    /// First argument of the system call.
    #[inline(always)]
    pub fn first_argument(self, call: u32) -> u64 {
        // SAFETY: as above.
        unsafe { arch::first_argument(self.pt_regs(), call) }
    }

    /// Writes the first arguments of the system call.
    ///
    /// # Safety
    /// `to` must be writable.
    #[inline(always)]
    pub unsafe fn arguments(self, call: u32, to: *mut [u64; 3]) {
        // SAFETY: as above, and by this function's own condition.
        unsafe { arch::arguments(self.pt_regs(), call, to) }
    }

    /// The fourth to sixth argument of the system call, of a 64-bit program.
    #[inline(always)]
    pub fn later_arguments(self) -> [u64; 3] {
        // SAFETY: as above.
        unsafe { arch::later_arguments(self.pt_regs()) }
    }

    /// It is switched out although it could continue to run.
    #[inline(always)]
    pub fn is_runnable(self) -> bool {
        load::<u32>(self.0, config!(task_state)).is_some_and(|state| state == 0)
    }

    /// The task waits for I/O (`in_iowait`), if it waits.
    #[inline(always)]
    pub fn is_in_iowait(self) -> bool {
        let byte: u8 = load(self.0, config!(task_in_iowait)).unwrap_or(0);
        u32::from(byte) & config!(task_in_iowait_mask) != 0
    }

    /// Absent user memory must not be brought in: the access fails instead.
    #[inline(always)]
    pub fn forbids_page_faults(self) -> bool {
        load::<u32>(self.0, config!(task_pagefault_disabled)).unwrap_or(0) != 0
    }

    /// Its address, which identifies it among all tasks while it exists.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// Its address as a number, for a function that the verifier checks separately. Slow.
    #[inline(always)]
    pub fn number(self) -> u64 {
        let address = self.address();
        probe(&raw const address as u64, 0).unwrap_or(0)
    }

    /// The first thread of its process.
    #[inline(always)]
    pub fn group_leader(self) -> Option<Self> {
        load(self.0, config!(task_group_leader)).map(Self)
    }

    /// Its address: [`Self::address`].
    #[inline(always)]
    pub fn group_leader_address(self) -> Option<u64> {
        probe(self.address(), config!(task_group_leader))
    }

    /// The thread, or another one of its process, is within `execve`.
    #[inline(always)]
    pub fn is_executing(self) -> bool {
        let fs = probe::<u64>(self.address(), config!(task_fs)).unwrap_or(0);
        fs != 0 && probe::<u32>(fs, config!(fs_in_exec)).unwrap_or(0) != 0
    }

    /// The typed pointer, for a helper.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut task_struct {
        self.0.cast_mut().cast()
    }

    /// The task will not run again.
    #[inline(always)]
    pub fn is_dead(self) -> bool {
        load::<u32>(self.0, config!(task_state)).unwrap_or(0) & TASK_DEAD != 0
    }

    /// The registers with which the task entered the kernel last.
    #[inline(always)]
    pub fn user_regs(self) -> UserRegs {
        // SAFETY: the verifier knows the helper's result as a pt_regs, which begins with the registers.
        unsafe { arch::regs_of(self.pt_regs().cast()) }
    }

    /// The task entered the kernel to execute another program: from some point on its user stack no longer exists, while its
    /// registers still say where it was.
    #[inline(always)]
    pub fn executes(self) -> bool {
        self.call().is_some_and(arch::is_exec)
    }

    #[inline(always)]
    fn pt_regs(self) -> *const TaskRegs {
        // SAFETY: a typed pointer to a task is all that the helper requires.
        unsafe { bpf_task_pt_regs(self.0.cast_mut().cast()) as *const TaskRegs }
    }
}

impl Binprm {
    /// From a tracepoint's argument.
    #[inline(always)]
    pub fn new(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    /// The path that execve was given, in kernel memory.
    #[inline(always)]
    pub fn filename(self) -> Option<*const u8> {
        load(self.0, config!(bprm_filename))
    }
}
