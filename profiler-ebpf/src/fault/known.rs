//! Mappings in which each CPU had faults recently: the others are found in the kernel's tree, which takes several times as long.
//!
//! The kernel counts changes of an address space (`mm->mm_lock_seq`, kernel 6.4 and later): an entry is valid while that count stays the
//! same. Once it has changed, the mapping itself is read: it has the count of its own last change (`vma->vm_lock_seq`), and shows whether it
//! is still part of an address space. Odd counts in 6.13 and later mean that a change is under way.

use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_probe_read_kernel};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use core::ffi::c_void;
use profiler_common::config::MISSING;
use profiler_common::fault::{FAULT_HAS_FILE, FAULT_HAS_VMA, FaultBody, Pending};
use profiler_common::scope::ThreadState;

use super::tree;
use crate::kernel::{RememberedVma, Seen, Task, VmaBytes};
use crate::maps::config;

/// Mappings in one set.
const WAYS: usize = 4;
const SETS: usize = 256;
/// Address bits within a MiB; the bits above them and the process select the set.
const SMALL: u32 = 20;
/// The same for larger mappings, 32 MiB: otherwise a browser's library alone would take a hundred entries.
const LARGE: u32 = 25;

/// Mappings in which faults occurred recently, by CPU. User space sets the size.
#[map]
static KNOWN_VMAS: Array<KnownVmas> = Array::with_max_entries(1, 0);

/// The mappings that a CPU remembers.
#[repr(C)]
struct KnownVmas {
    sets: [[KnownVma; WAYS]; SETS],
    /// The entry that the next mapping takes.
    next: u64,
    /// Copy of the mapping that is checked.
    copy: VmaBytes,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct KnownVma {
    /// Address of the `mm_struct`; 0: nothing is known here.
    mm: u64,
    /// Address of the mapping itself.
    vma: u64,
    /// The address space's count of changes, up to which this entry is valid.
    changes: u32,
    /// The mapping's own count of changes.
    last_change: u32,
    start: u64,
    end: u64,
    /// Offset of the first byte in the file.
    first: u64,
    /// Address of `file->f_ra.mmap_miss`.
    miss: u64,
    /// Flags `FAULT_HAS_*`; the mapping's data follows.
    flags: u32,
    device: u32,
    magic: u32,
    generation: u32,
    inode: u64,
    vm_flags: u64,
    /// The process: the kernel reuses the addresses of address spaces.
    pid: u32,
    /// Explicit padding.
    pad: u32,
}

/// Fills in the mapping of the innermost fault of the current thread, whose entry is `state`. 0: it is not known.
///
/// Exported, so that the verifier checks it once, and the rest of the program once rather than after each way out of the loop.
///
/// # Safety
/// `state` must be null or the current thread's.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn recall(state: *mut ThreadState) -> u32 {
    if state.is_null() {
        return 0;
    }
    let Some(space) = Space::of(Task::current()) else {
        return 0;
    };
    let Some(known) = of_this_cpu() else { return 0 };
    // SAFETY: by this function's own condition, and this CPU's memory: the program can't be preempted, and one that interrupts it
    // counts no fault.
    unsafe {
        let pid = (*state).pid;
        let pending = &raw mut (*state).faults.inner;
        let address = (*pending).body.address;
        for bits in [SMALL, LARGE] {
            let set = set(known, pid, address, bits);
            for way in 0..WAYS {
                let one = set.add(way);
                // The process last: it is in another cache line.
                if (*one).mm != space.mm || address < (*one).start || address >= (*one).end || (*one).pid != pid {
                    continue;
                }
                if (*one).changes != space.changes || space.changes_now {
                    if !is_unchanged(one, space, &raw mut (*known).copy) {
                        // Otherwise a program that keeps mapping the same place would have each entry checked at each fault.
                        if (*one).last_change != space.changes {
                            (*one).mm = 0;
                        }
                        continue;
                    }
                    (*one).changes = space.changes;
                }
                fill(pending, one);
                return 1;
            }
        }
    }
    0
}

/// Fills in the mapping of a fault.
///
/// # Safety
/// `pending` must be writable, and `one` readable.
#[inline(always)]
unsafe fn fill(pending: *mut Pending, one: *const KnownVma) {
    // SAFETY: by this function's own condition; the helper writes the whole number.
    unsafe {
        let fault = &raw mut (*pending).body;
        (*fault).flags |= (*one).flags;
        (*pending).range = [(*one).start, (*one).end];
        let vma = &raw mut (*fault).vma;
        (*vma).flags = (*one).vm_flags;
        if (*one).flags & FAULT_HAS_FILE != 0 {
            (*vma).offset = ((*fault).address.wrapping_sub((*one).start) & !4095).wrapping_add((*one).first);
            (*vma).inode = (*one).inode;
            (*vma).device = (*one).device;
            (*vma).magic = (*one).magic;
            (*vma).generation = (*one).generation;
            let mut miss = 0_u16;
            bpf_probe_read_kernel((&raw mut miss).cast(), 2, (*one).miss as *const c_void);
            (*vma).mmap_miss = u32::from(miss);
        }
    }
}

/// The mapping is still in the address space, and has not changed since it was remembered. The fields are compared too: another
/// mapping may use the memory by now.
///
/// # Safety
/// `one` must be readable, and `copy` writable.
#[inline(always)]
unsafe fn is_unchanged(one: *const KnownVma, space: Space, copy: *mut VmaBytes) -> bool {
    // SAFETY: by this function's own condition.
    unsafe {
        let vma = RememberedVma((*one).vma);
        let last = (*one).last_change;
        last != space.changes
            && vma.read(copy).is_some_and(|vma| {
                vma.is((*one).start, (*one).end, (*one).first, (*one).vm_flags, (*one).miss) && vma.is_attached((*one).mm)
            })
            // Last: a change that began since the first read shows here.
            && vma.last_change() == Some(last)
    }
}

/// Fills in the mapping of the innermost fault of the current thread, whose entry is `state`, from the kernel's tree. 0: it was not found.
///
/// Exported, as [`recall`].
///
/// # Safety
/// As [`recall`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn find(state: *mut ThreadState) -> u32 {
    if state.is_null() || config!(mm_tree) == MISSING {
        return 0;
    }
    let task = Task::current();
    // First: what changes later makes the entry be checked.
    let space = Space::of(task);
    let (Some(mm), Some(known)) = (task.mm_address().filter(|&mm| mm != 0), of_this_cpu()) else {
        return 0;
    };
    // SAFETY: as in `recall`.
    unsafe {
        let pending = &raw mut (*state).faults.inner;
        let address = (*pending).body.address;
        let vma = tree::mapping_at(mm, address);
        if vma == 0 {
            return 0;
        }
        let Some(copy) = RememberedVma(vma).read(&raw mut (*known).copy) else {
            return 0;
        };
        let seen = copy.seen(vma);
        if !copy.is_attached(mm) || address < seen.start || address >= seen.end {
            return 0;
        }
        (*pending).body.flags |= copy.describe(address, &raw mut (*pending).body.vma);
        (*pending).range = [seen.start, seen.end];
        learn(space, (*state).pid, &seen, &raw const (*pending).body);
    }
    1
}

/// Remembers the mapping that was just found for a fault.
///
/// # Safety
/// As [`recall`].
#[inline(always)]
pub unsafe fn learn(space: Option<Space>, pid: u32, seen: &Seen, fault: *const FaultBody) {
    let (Some(space), Some(known)) = (space, of_this_cpu()) else {
        return;
    };
    let Seen { start, end, .. } = *seen;
    // SAFETY: as above.
    unsafe {
        let bits = if end.wrapping_sub(start) > 1 << LARGE {
            LARGE
        } else {
            SMALL
        };
        let set = set(known, pid, (*fault).address, bits);
        (*known).next += 1;
        let mut one = set.add((*known).next as usize % WAYS);
        for way in 0..WAYS {
            if (*set.add(way)).mm == 0 {
                one = set.add(way);
                break;
            }
        }
        let told = &raw const (*fault).vma;
        *one = KnownVma {
            // The count that it will have is not known during a change.
            mm: if space.changes_now { 0 } else { space.mm },
            vma: seen.vma,
            changes: space.changes,
            // Without its own count, the mapping is treated as changing.
            last_change: seen.last_change.unwrap_or(space.changes),
            start,
            end,
            first: seen.first,
            miss: seen.miss,
            flags: (*fault).flags & (FAULT_HAS_VMA | FAULT_HAS_FILE),
            device: (*told).device,
            magic: (*told).magic,
            generation: (*told).generation,
            inode: (*told).inode,
            vm_flags: (*told).flags,
            pid,
            pad: 0,
        };
    }
}

/// A task's address space, and how often it has changed.
#[derive(Clone, Copy)]
pub struct Space {
    mm: u64,
    changes: u32,
    /// A change is under way.
    changes_now: bool,
}

impl Space {
    /// `None`: the task has no address space, or the kernel does not count changes.
    #[inline(always)]
    pub fn of(task: Task) -> Option<Self> {
        if config!(mm_lock_seq) == MISSING {
            return None;
        }
        let mm = task.mm()?;
        let changes = mm.changes();
        Some(Self {
            mm: mm.address(),
            changes,
            changes_now: config!(mm_lock_seq_is_count) != 0 && changes & 1 != 0,
        })
    }
}

/// The mappings that this CPU remembers.
#[inline(always)]
fn of_this_cpu() -> Option<*mut KnownVmas> {
    // SAFETY: the helper has no preconditions.
    KNOWN_VMAS.get_ptr_mut(unsafe { bpf_get_smp_processor_id() } as u32)
}

/// The set of mappings that may contain the address. (Selected by process, since the verifier rejects arithmetic with kernel addresses.)
///
/// # Safety
/// `known` must be this CPU's.
#[inline(always)]
unsafe fn set(known: *mut KnownVmas, pid: u32, address: u64, bits: u32) -> *mut KnownVma {
    let place = u64::from(pid) << 32 ^ address >> bits ^ u64::from(bits) << 56;
    let hash = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (hash >> (u64::BITS - SETS.trailing_zeros())) as usize & (SETS - 1);
    // SAFETY: by this function's own condition, and the number is below `SETS`.
    unsafe { (&raw mut (*known).sets).cast::<KnownVma>().add(number * WAYS) }
}
