//! Mappings that faults were in lately, on each CPU: `bpf_find_vma` takes 3 µs and more, because interrupts are off where the kernel
//! counts faults, so that it gives its lock back through an interrupt of its own.
//!
//! The kernel counts changes of an address space (`mm->mm_lock_seq`, kernel 6.4 and later): what is known holds while that count stays.
//! Odd counts of 6.13 and later say that a change is under way, during which nothing is learned.

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use core::ffi::c_void;
use profiler_common::config::MISSING;
use profiler_common::fault::{FAULT_HAS_FILE, FAULT_HAS_VMA, FaultBody};

use crate::kernel::{Task, VmaStruct};
use crate::maps::{KNOWN_VMAS, config};

/// How many are remembered.
const KNOWN: usize = 8;

/// The mappings that a CPU remembers.
#[repr(C)]
pub struct KnownVmas {
    vmas: [KnownVma; KNOWN],
    /// The place that the next one takes.
    next: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct KnownVma {
    /// Address of the `mm_struct`; 0: nothing is known here.
    mm: u64,
    changes: u64,
    start: u64,
    end: u64,
    /// Offset of the first byte in the file.
    first: u64,
    /// Address of `file->f_ra.mmap_miss`.
    miss: u64,
    /// Flags `FAULT_HAS_*` and what the mapping says.
    flags: u32,
    device: u32,
    magic: u32,
    generation: u32,
    inode: u64,
    vm_flags: u64,
}

/// Fills in the mapping of a fault of the current task, if it is known.
///
/// # Safety
/// `fault` must be the current thread's.
#[inline(always)]
pub unsafe fn recall(task: Task, fault: *mut FaultBody) -> bool {
    let Some((mm, changes)) = state(task) else { return false };
    let Some(known) = KNOWN_VMAS.get_ptr(0) else {
        return false;
    };
    // SAFETY: by this function's own condition, and this CPU's memory: the program can't be preempted, and one that interrupts it
    // counts no fault.
    unsafe {
        let address = (*fault).address;
        for index in 0..KNOWN {
            let one = (&raw const (*known).vmas).cast::<KnownVma>().add(index);
            if (*one).mm != mm || (*one).changes != changes || address < (*one).start || address >= (*one).end {
                continue;
            }
            (*fault).flags |= (*one).flags;
            let vma = &raw mut (*fault).vma;
            (*vma).flags = (*one).vm_flags;
            if (*one).flags & FAULT_HAS_FILE != 0 {
                (*vma).offset = (address.wrapping_sub((*one).start) & !4095).wrapping_add((*one).first);
                (*vma).inode = (*one).inode;
                (*vma).device = (*one).device;
                (*vma).magic = (*one).magic;
                (*vma).generation = (*one).generation;
                let mut miss = 0_u16;
                bpf_probe_read_kernel((&raw mut miss).cast(), 2, (*one).miss as *const c_void);
                (*vma).mmap_miss = u32::from(miss);
            }
            return true;
        }
    }
    false
}

/// Remembers the mapping that was just found for a fault.
///
/// # Safety
/// As [`recall`].
#[inline(always)]
pub unsafe fn learn(task: Task, vma: VmaStruct, fault: *const FaultBody) {
    let Some((mm, changes)) = state(task) else { return };
    let Some(known) = KNOWN_VMAS.get_ptr_mut(0) else { return };
    let (start, end) = vma.range();
    // SAFETY: as above.
    unsafe {
        let place = (*known).next as usize % KNOWN;
        (*known).next += 1;
        let one = (&raw mut (*known).vmas).cast::<KnownVma>().add(place);
        let told = &raw const (*fault).vma;
        *one = KnownVma {
            mm,
            changes,
            start,
            end,
            first: vma.first_byte(),
            miss: vma.miss_counter(),
            flags: (*fault).flags & (FAULT_HAS_VMA | FAULT_HAS_FILE),
            device: (*told).device,
            magic: (*told).magic,
            generation: (*told).generation,
            inode: (*told).inode,
            vm_flags: (*told).flags,
        };
    }
}

/// The task's address space, and how often it has changed. `None`: that is not known, or it changes now.
#[inline(always)]
fn state(task: Task) -> Option<(u64, u64)> {
    if config!(mm_lock_seq) == MISSING {
        return None;
    }
    let mm = task.mm()?;
    let changes = mm.changes();
    (config!(mm_lock_seq_is_count) == 0 || changes & 1 == 0).then_some((mm.address(), changes))
}
