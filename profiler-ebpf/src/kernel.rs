//! Every field of a kernel struct that is read, through the offsets of the running kernel.
//!
//! The order is that of `Config` and of profiler/src/capture/btf.rs. Pointers come from tracepoint arguments or from
//! `bpf_get_current_task_btf`, so the verifier knows their types and turns a bad load into a zero.

use core::ffi::c_void;

use aya_ebpf::bindings::{pt_regs, task_struct};
use aya_ebpf::helpers::{bpf_get_current_task_btf, bpf_task_pt_regs};
use profiler_common::config::MISSING;
use profiler_common::fault::{FAULT_HAS_FILE, FAULT_HAS_VMA, ReadRun, Vma};
use profiler_common::stack::UserRegs;
use profiler_common::task::COMM_LEN;
use profiler_common::unwind::link_of_bx;

use crate::maps::config;

/// `PF_KTHREAD` of include/linux/sched.h: a kernel thread, which has no user registers.
const PF_KTHREAD: u32 = 0x0020_0000;
/// `TASK_DEAD` of include/linux/sched.h: the task is switched out for the last time.
const TASK_DEAD: u32 = 0x80;

/// `execve` and `execveat` of arch/x86/entry/syscalls/syscall_64.tbl.
const SYS_EXECVE: u64 = 59;
const SYS_EXECVEAT: u64 = 322;

/// `struct task_struct *`
#[derive(Clone, Copy)]
pub struct Task(*const c_void);

/// `struct mm_struct *`
#[derive(Clone, Copy)]
pub struct Mm(*const c_void);

/// `struct vm_area_struct *`
#[derive(Clone, Copy)]
pub struct VmaStruct(*const c_void);

/// `struct folio *`
#[derive(Clone, Copy)]
pub struct Folio(*const c_void);

/// `struct linux_binprm *`
#[derive(Clone, Copy)]
pub struct Binprm(*const c_void);

/// Loads a `T` at `base + offset`; `None` where this kernel has no such field.
#[inline(always)]
fn load<T: Copy>(base: *const c_void, offset: u32) -> Option<T> {
    if offset == MISSING {
        return None;
    }
    // SAFETY: `base` is a kernel pointer that the verifier knows the type of, and it checks the offset against that type.
    Some(unsafe { core::ptr::read_volatile(base.byte_add(offset as usize).cast::<T>()) })
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

    /// The thread's id, as `gettid` in the first pid namespace.
    #[inline(always)]
    pub fn tid(self) -> u32 {
        load(self.0, config!(task_pid)).unwrap_or(0)
    }

    /// The thread group's id, as `getpid` in the first pid namespace.
    #[inline(always)]
    pub fn pid(self) -> u32 {
        load(self.0, config!(task_tgid)).unwrap_or(0)
    }

    /// Where the name is, for `bpf_probe_read_kernel`.
    #[inline(always)]
    pub fn comm(self) -> Option<*const [u8; COMM_LEN]> {
        let offset = config!(task_comm);
        // SAFETY: only an address is computed, inside the task_struct.
        (offset != MISSING).then(|| unsafe { self.0.byte_add(offset as usize) }.cast())
    }

    #[inline(always)]
    pub fn exit_code(self) -> u32 {
        load(self.0, config!(task_exit_code)).unwrap_or(0)
    }

    #[inline(always)]
    pub fn minor_faults(self) -> u64 {
        load(self.0, config!(task_min_flt)).unwrap_or(0)
    }

    #[inline(always)]
    pub fn major_faults(self) -> u64 {
        load(self.0, config!(task_maj_flt)).unwrap_or(0)
    }

    #[inline(always)]
    pub fn sum_exec_runtime(self) -> u64 {
        load(self.0, config!(task_sum_exec_runtime)).unwrap_or(0)
    }

    /// The address space; `None` for a kernel thread and for a thread that has given it up.
    #[inline(always)]
    pub fn mm(self) -> Option<Mm> {
        let mm: *const c_void = load(self.0, config!(task_mm))?;
        (!mm.is_null()).then_some(Mm(mm))
    }

    /// A thread on its way out, whose address space is gone (`exit_mm`); false where the kernel does not tell.
    #[inline(always)]
    pub fn has_no_address_space(self) -> bool {
        load::<*const c_void>(self.0, config!(task_mm)).is_some_and(|mm| mm.is_null())
    }

    #[inline(always)]
    pub fn is_kernel_thread(self) -> bool {
        load::<u32>(self.0, config!(task_flags)).unwrap_or(0) & PF_KTHREAD != 0
    }

    /// The thread control block's address, as of the last switch-out (user space changes it once in a thread's life).
    #[inline(always)]
    pub fn fsbase(self) -> Option<u64> {
        load(self.0, config!(task_fsbase))
    }

    /// It is switched out although it could run on.
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

    /// User memory that is not there is not to be brought in: the access fails instead.
    #[inline(always)]
    pub fn forbids_page_faults(self) -> bool {
        load::<u32>(self.0, config!(task_pagefault_disabled)).unwrap_or(0) != 0
    }

    /// For a helper.
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
        // SAFETY: the verifier knows the helper's result as a pt_regs.
        unsafe { regs_of(self.pt_regs()) }
    }

    /// The task entered the kernel to execute another program: from some point on its user stack exists no more, while its
    /// registers still say where it was.
    #[inline(always)]
    pub fn executes(self) -> bool {
        // SAFETY: as above.
        let call = unsafe { core::ptr::read_volatile(&raw const (*self.pt_regs()).orig_rax) };
        call == SYS_EXECVE || call == SYS_EXECVEAT
    }

    #[inline(always)]
    fn pt_regs(self) -> *const pt_regs {
        // SAFETY: a typed pointer to a task is all that the helper asks for.
        unsafe { bpf_task_pt_regs(self.0.cast_mut().cast()) as *const pt_regs }
    }
}

/// What unwinding needs of a `pt_regs`.
///
/// # Safety
/// The verifier must know `regs` as a pt_regs or as the context that starts with one.
#[inline(always)]
pub unsafe fn regs_of(regs: *const pt_regs) -> UserRegs {
    // SAFETY: by this function's own condition.
    unsafe {
        UserRegs {
            ip: core::ptr::read_volatile(&raw const (*regs).rip),
            sp: core::ptr::read_volatile(&raw const (*regs).rsp),
            fp: core::ptr::read_volatile(&raw const (*regs).rbp),
            lr: link_of_bx(core::ptr::read_volatile(&raw const (*regs).rbx)),
        }
    }
}

/// The CPU was in user mode: the code segment's privilege level.
///
/// # Safety
/// As [`regs_of`].
#[inline(always)]
pub unsafe fn in_user_mode(regs: *const pt_regs) -> bool {
    // SAFETY: by this function's own condition.
    unsafe { core::ptr::read_volatile(&raw const (*regs).cs) & 3 != 0 }
}

impl Mm {
    /// Where the main thread's stack began: `argc` is here.
    #[inline(always)]
    pub fn start_stack(self) -> Option<u64> {
        load(self.0, config!(mm_start_stack))
    }

    /// How often it has changed, as far as the kernel counts.
    #[inline(always)]
    pub fn changes(self) -> u64 {
        u64::from(load::<u32>(self.0, config!(mm_lock_seq)).unwrap_or(0))
    }

    /// For comparisons.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// The command line in user memory: start and end.
    #[inline(always)]
    pub fn arguments(self) -> Option<(u64, u64)> {
        Some((load(self.0, config!(mm_arg_start))?, load(self.0, config!(mm_arg_end))?))
    }
}

impl VmaStruct {
    /// From a function's argument.
    #[inline(always)]
    pub fn new(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    /// Writes what the mapping says of `address`, and returns the `FAULT_HAS_*` that apply.
    ///
    /// # Safety
    /// `to` must be writable.
    #[inline(always)]
    pub unsafe fn describe(self, address: u64, to: *mut Vma) -> u32 {
        let file: *const c_void = load(self.0, config!(vma_file)).unwrap_or(core::ptr::null());
        // SAFETY: by this function's own condition.
        unsafe {
            (*to).flags = load(self.0, config!(vma_flags)).unwrap_or(0);
            if file.is_null() {
                return FAULT_HAS_VMA;
            }
            let start: u64 = load(self.0, config!(vma_start)).unwrap_or(0);
            let first: u64 = load(self.0, config!(vma_pgoff)).unwrap_or(0);
            (*to).offset = (address.wrapping_sub(start) & !4095).wrapping_add(first << 12);
            (*to).mmap_miss = u32::from(load::<u16>(file, config!(file_mmap_miss)).unwrap_or(0));
            let Some(inode) = load::<*const c_void>(file, config!(file_inode)) else {
                return FAULT_HAS_VMA;
            };
            (*to).inode = load(inode, config!(inode_ino)).unwrap_or(0);
            (*to).generation = load(inode, config!(inode_generation)).unwrap_or(0);
            if let Some(superblock) = load::<*const c_void>(inode, config!(inode_sb)) {
                (*to).device = load(superblock, config!(sb_dev)).unwrap_or(0);
                (*to).magic = load::<u64>(superblock, config!(sb_magic)).unwrap_or(0) as u32;
            }
        }
        FAULT_HAS_VMA | FAULT_HAS_FILE
    }

    /// First address, and the one behind the last.
    #[inline(always)]
    pub fn range(self) -> (u64, u64) {
        (
            load(self.0, config!(vma_start)).unwrap_or(0),
            load(self.0, config!(vma_end)).unwrap_or(0),
        )
    }

    /// Offset of its first byte in its file.
    #[inline(always)]
    pub fn first_byte(self) -> u64 {
        load::<u64>(self.0, config!(vma_pgoff)).unwrap_or(0) << 12
    }

    /// Address of `mmap_miss` of its file, of 16 bits.
    #[inline(always)]
    pub fn miss_counter(self) -> u64 {
        let file: *const c_void = load(self.0, config!(vma_file)).unwrap_or(core::ptr::null());
        (file as u64).wrapping_add(u64::from(config!(file_mmap_miss)))
    }

    /// The mapping is not in the task's own address space.
    #[inline(always)]
    pub fn is_of_another(self, task: Task) -> bool {
        let mm: *const c_void = load(self.0, config!(vma_mm)).unwrap_or(core::ptr::null());
        task.mm().is_none_or(|own| own.0 != mm)
    }
}

impl Folio {
    /// From a tracepoint's argument.
    #[inline(always)]
    pub fn new(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    /// Which pages of which file it holds.
    #[inline(always)]
    pub fn place(self) -> Option<ReadRun> {
        let mapping: *const c_void = load(self.0, config!(folio_mapping))?;
        let inode: *const c_void = load(mapping, config!(mapping_host))?;
        let superblock: *const c_void = load(inode, config!(inode_sb))?;
        Some(ReadRun {
            since: 0,
            inode: load(inode, config!(inode_ino))?,
            first: load(self.0, config!(folio_index))?,
            device: load(superblock, config!(sb_dev))?,
            count: self.pages(),
            in_fault: 0,
            generation: load(inode, config!(inode_generation)).unwrap_or(0),
        })
    }

    /// How many pages it has (`folio_nr_pages`).
    #[inline(always)]
    fn pages(self) -> u32 {
        let flags: u64 = load(self.0, config!(folio_flags)).unwrap_or(0);
        let head = config!(page_head);
        if head == MISSING || flags >> (head & 63) & 1 == 0 {
            return 1;
        }
        let order = load::<u8>(self.0, config!(folio_order)).or_else(|| load::<u8>(self.0, config!(folio_flags_1)));
        1 << (order.unwrap_or(0) & 15)
    }
}

impl Binprm {
    /// From a tracepoint's argument.
    #[inline(always)]
    pub fn new(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    /// The path that execve got, in kernel memory.
    #[inline(always)]
    pub fn filename(self) -> Option<*const u8> {
        load(self.0, config!(bprm_filename))
    }
}
