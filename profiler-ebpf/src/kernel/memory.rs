//! Address spaces, their mappings, and pages of files.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use profiler_common::config::MISSING;
use profiler_common::fault::{FAULT_HAS_FILE, FAULT_HAS_VMA, ReadRun, Vma};

use super::Task;
use crate::arch;
use crate::maps::config;
use crate::read::{load, probe};

/// Bit of `vm_refcnt` that a writer sets: the rest counts the address space, if it contains the mapping, and readers (`VMA_LOCK_OFFSET`).
const REFCNT_WRITER: u32 = 1 << 30;

/// `VM_LOCKED` of include/linux/mm.h.
const VM_LOCKED: u64 = 0x2000;

/// `struct mm_struct *`
#[derive(Clone, Copy)]
pub struct Mm(pub(super) *const c_void);

/// `struct vm_area_struct *`
#[derive(Clone, Copy)]
pub struct VmaStruct(*const c_void);

/// A `struct vm_area_struct *` that was valid once.
#[derive(Clone, Copy)]
pub struct RememberedVma(pub u64);

/// The maximum size of a `vm_area_struct`, from Linux 6.4 to 7.2.
pub type VmaBytes = [u64; 32];

/// A copy of the memory at a [`RememberedVma`].
#[derive(Clone, Copy)]
pub struct VmaCopy(*const VmaBytes);

/// What is remembered of a mapping.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Address of its `vm_area_struct`.
    pub vma: u64,
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Offset of its first byte in its file.
    pub first: u64,
    /// Address of `mmap_miss` of its file, of 16 bits.
    pub miss: u64,
    /// The count of changes of its address space ([`Mm::changes`]) at its own last change: while both are equal it may be changing. `None`: the
    /// kernel does not keep it.
    pub last_change: Option<u32>,
}

/// `struct folio *`
#[derive(Clone, Copy)]
pub struct Folio(*const c_void);

impl Mm {
    /// How often it has changed, if the kernel counts that.
    #[inline(always)]
    pub fn changes(self) -> u32 {
        load(self.0, config!(mm_lock_seq)).unwrap_or(0)
    }

    /// Its address, for comparisons.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// `SUID_DUMP_*`: the lowest bits of its flags (`MMF_DUMPABLE_MASK`).
    #[inline(always)]
    pub(super) fn dumpable(self) -> Option<u32> {
        load::<u32>(self.0, config!(mm_flags)).map(|flags| flags & 3)
    }

    /// The command line in user memory: start and end.
    #[inline(always)]
    pub fn arguments(self) -> Option<(u64, u64)> {
        Some((load(self.0, config!(mm_arg_start))?, load(self.0, config!(mm_arg_end))?))
    }
}

/// Whether new mappings of the address space whose `mm_struct` is at `mm` are locked in memory (`mlockall` with `MCL_FUTURE`).
#[inline(always)]
pub fn locks_new_mappings(mm: u64) -> bool {
    probe::<u64>(mm, config!(mm_def_flags)).is_some_and(|flags| flags & VM_LOCKED != 0)
}

/// The tree of mappings of the address space whose `mm_struct` is at `mm`: its first entry.
#[inline(always)]
pub fn mappings(mm: u64) -> Option<u64> {
    probe(mm, config!(mm_tree))
}

/// The top page table of the address space whose `mm_struct` is at `mm`.
#[inline(always)]
pub fn top_table(mm: u64) -> Option<u64> {
    probe(mm, config!(mm_pgd))
}

impl VmaStruct {
    /// From a function's argument.
    #[inline(always)]
    pub fn new(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    /// Writes the mapping's data for `address`, and returns the `FAULT_HAS_*` that apply.
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
            (*to).offset = (address.wrapping_sub(start) & !4095).wrapping_add(first << arch::page_shift());
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

    /// First address, and the one after the last.
    #[inline(always)]
    pub fn range(self) -> (u64, u64) {
        (
            load(self.0, config!(vma_start)).unwrap_or(0),
            load(self.0, config!(vma_end)).unwrap_or(0),
        )
    }

    /// What is to be remembered of it.
    #[inline(always)]
    pub fn seen(self) -> Seen {
        let (start, end) = self.range();
        let file: *const c_void = load(self.0, config!(vma_file)).unwrap_or(core::ptr::null());
        Seen {
            vma: self.0 as u64,
            start,
            end,
            first: load::<u64>(self.0, config!(vma_pgoff)).unwrap_or(0) << arch::page_shift(),
            miss: (file as u64).wrapping_add(u64::from(config!(file_mmap_miss))),
            last_change: load(self.0, config!(vma_lock_seq)),
        }
    }

    /// Address of its `mm_struct`.
    #[inline(always)]
    pub fn mm_address(self) -> u64 {
        load::<*const c_void>(self.0, config!(vma_mm)).map_or(0, |mm| mm as u64)
    }

    /// Whether the mapping is not in the task's own address space.
    #[inline(always)]
    pub fn is_of_another(self, task: Task) -> bool {
        let mm: *const c_void = load(self.0, config!(vma_mm)).unwrap_or(core::ptr::null());
        task.mm().is_none_or(|own| own.0 != mm)
    }
}

impl RememberedVma {
    /// Copies the memory at this address to `to` at once, since each read is a call. `None`: it can't be read.
    ///
    /// # Safety
    /// `to` must be writable.
    #[inline(always)]
    pub unsafe fn read(self, to: *mut VmaBytes) -> Option<VmaCopy> {
        // SAFETY: a copy's size; the helper refuses what can't be read.
        let failed = unsafe { bpf_probe_read_kernel(to.cast(), size_of::<VmaBytes>() as u32, self.0 as *const c_void) };
        (failed == 0).then_some(VmaCopy(to))
    }

    /// [`Seen::last_change`]
    #[inline(always)]
    pub fn last_change(self) -> Option<u32> {
        probe(self.0, config!(vma_lock_seq))
    }
}

impl VmaCopy {
    /// Whether it is still a mapping of the address space `mm`. Another mapping may have its memory now.
    #[inline(always)]
    pub fn is_attached(self, mm: u64) -> bool {
        let attached = match self.field::<u32>(config!(vma_refcnt)) {
            Some(count) => count & !REFCNT_WRITER != 0,
            // Before 6.4 nothing says so.
            None => self.field::<u8>(config!(vma_detached)).unwrap_or(0) == 0,
        };
        attached && self.field(config!(vma_mm)) == Some(mm)
    }

    /// As [`VmaStruct::describe`].
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn describe(self, address: u64, to: *mut Vma) -> u32 {
        let file = self.file();
        // SAFETY: by this function's own condition.
        unsafe {
            (*to).flags = self.flags();
            if file == 0 {
                return FAULT_HAS_VMA;
            }
            let seen = self.seen(0);
            (*to).offset = (address.wrapping_sub(seen.start) & !4095).wrapping_add(seen.first);
            (*to).mmap_miss = u32::from(probe::<u16>(file, config!(file_mmap_miss)).unwrap_or(0));
            let Some(inode) = probe(file, config!(file_inode)) else {
                return FAULT_HAS_VMA;
            };
            (*to).inode = probe(inode, config!(inode_ino)).unwrap_or(0);
            (*to).generation = probe(inode, config!(inode_generation)).unwrap_or(0);
            if let Some(superblock) = probe(inode, config!(inode_sb)) {
                (*to).device = probe(superblock, config!(sb_dev)).unwrap_or(0);
                (*to).magic = probe::<u64>(superblock, config!(sb_magic)).unwrap_or(0) as u32;
            }
        }
        FAULT_HAS_VMA | FAULT_HAS_FILE
    }

    /// What is to be remembered of the mapping, whose `vm_area_struct` is at `vma`.
    #[inline(always)]
    pub fn seen(self, vma: u64) -> Seen {
        Seen {
            vma,
            start: self.field(config!(vma_start)).unwrap_or(0),
            end: self.field(config!(vma_end)).unwrap_or(0),
            first: self.field::<u64>(config!(vma_pgoff)).unwrap_or(0) << arch::page_shift(),
            miss: self.file().wrapping_add(u64::from(config!(file_mmap_miss))),
            last_change: self.field(config!(vma_lock_seq)),
        }
    }

    #[inline(always)]
    fn file(self) -> u64 {
        self.field(config!(vma_file)).unwrap_or(0)
    }

    #[inline(always)]
    fn flags(self) -> u64 {
        self.field(config!(vma_flags)).unwrap_or(0)
    }

    /// Whether its addresses, first byte in the file, flags and [`Seen::miss`] are these.
    #[inline(always)]
    pub fn is(self, start: u64, end: u64, first: u64, flags: u64, miss: u64) -> bool {
        let seen = self.seen(0);
        seen.start == start && seen.end == end && seen.first == first && self.flags() == flags && seen.miss == miss
    }

    /// `None` where this kernel has no such field, or has it beyond the end of the copy.
    #[inline(always)]
    fn field<T: Copy>(self, offset: u32) -> Option<T> {
        if offset as usize > size_of::<VmaBytes>() - size_of::<u64>() {
            return None;
        }
        // SAFETY: within the copy, and aligned as in the kernel's struct.
        Some(unsafe { core::ptr::read_volatile(self.0.byte_add(offset as usize).cast::<T>()) })
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
        // Records count pages of 4 KiB.
        let more = arch::page_shift().saturating_sub(12);
        let order = self.order() + more as u16;
        Some(ReadRun {
            since: 0,
            inode: load(inode, config!(inode_ino))?,
            first: load::<u64>(self.0, config!(folio_index))? << more,
            device: load(superblock, config!(sb_dev))?,
            count: 1 << order,
            in_fault: 0,
            order,
            generation: load(inode, config!(inode_generation)).unwrap_or(0),
        })
    }

    /// Binary logarithm of its number of pages (`folio_order`).
    #[inline(always)]
    fn order(self) -> u16 {
        let flags: u64 = load(self.0, config!(folio_flags)).unwrap_or(0);
        let head = config!(page_head);
        if head == MISSING || flags >> (head & 63) & 1 == 0 {
            return 0;
        }
        let order = load::<u8>(self.0, config!(folio_order)).or_else(|| load::<u8>(self.0, config!(folio_flags_1)));
        u16::from(order.unwrap_or(0) & 15)
    }
}
