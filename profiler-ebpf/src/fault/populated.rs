//! Pages that a system call maps ahead: `mmap` with `MAP_POPULATE`, `mlock`, `madvise` with `MADV_POPULATE_*`. No exception and no software
//! event reports these (tiers 2 and 3).
//!
//! The kernel populates a range upwards, and holds the lock of the address space for reading (`__mm_populate` and
//! `faultin_page_range` in mm/gup.c). It releases that at the end, and before whenever it waits for a disk: then the end of the
//! range is not mapped yet. So the page table is read downwards from the end, up to the first page that is not mapped: at a
//! wait that is usually the first one that is read, and after the last release the whole range was.

use core::ffi::{c_long, c_void};

use aya_ebpf::helpers::generated::bpf_loop;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::Loss;
use profiler_common::fault::{BLOCK_PAGES, CHUNK, PagesPopulated, Placed};
use profiler_common::scope::ThreadState;
use profiler_common::switch::CALL_I386;

use super::mapped::{DIRECT_MAP_HIDDEN, LAST_PAGE, UNREADABLE, direct_map, read_chunk};
use crate::arch::table::Block;
use crate::arch::{SYS_MADVISE, SYS_MLOCK, SYS_MLOCK2, SYS_MMAP};
use crate::emit::{self, At, lose, now};
use crate::kernel::{Task, locks_new_mappings, top_table};
use crate::maps::config;
use crate::preempt::Held;
use crate::read::load;
use crate::scope;

/// Flags of `mmap` (include/uapi/linux/mman.h, include/uapi/asm-generic/mman-common.h and mman.h).
const MAP_SHARED: u64 = 1;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_LOCKED: u64 = 0x2000;
const MAP_POPULATE: u64 = 0x8000;
const MAP_NONBLOCK: u64 = 0x1_0000;
/// Advice of `madvise` (include/uapi/asm-generic/mman-common.h).
const MADV_POPULATE_READ: u64 = 22;
const MADV_POPULATE_WRITE: u64 = 23;

/// Binary logarithm of the page size in records.
const PAGE: u32 = 12;
/// Bytes of a block.
const BLOCK: u64 = (BLOCK_PAGES as u64) << PAGE;
/// Chunks or huge pages of a range that are read at most: a GiB, or 32 GiB of huge pages. The thread keeps its CPU
/// meanwhile.
const MOST_STEPS: u32 = 1 << 14;

/// `vm_unmapped_area(unsigned long addr, struct vm_unmapped_area_info *info)`: the kernel found an address for a new
/// mapping, which the call's arguments do not show.
#[btf_tracepoint(function = "vm_unmapped_area")]
pub fn vm_unmapped_area(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let task = Task::current();
    if !task.may_be_in(&[SYS_MMAP]) || config!(populated) == 0 || task.call() != Some(SYS_MMAP) {
        return 0;
    }
    let Some(mm) = task.own_mm() else { return 0 };
    if !populates(mm, task.later_arguments()[0]) {
        return 0;
    }
    let Some(state) = scope::thread(task) else { return 0 };
    let info = ctx.arg::<*const c_void>(1);
    let Some(len) = load(info, config!(unmapped_length)) else {
        return 0;
    };
    // SAFETY: the current thread's own entry.
    unsafe {
        (*state).faults.placed = Placed {
            start: ctx.arg::<u64>(0),
            len,
        };
    }
    0
}

/// `mmap_lock_released(struct mm_struct *mm, ...)`: the lock of an address space is about to be released. Before 6.8 at each fault, so what it
/// tests first is cheap.
#[btf_tracepoint(function = "mmap_lock_released")]
pub fn mmap_lock_released(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let task = Task::current();
    if !task.may_be_in(&[SYS_MMAP, SYS_MADVISE, SYS_MLOCK, SYS_MLOCK2]) || config!(populated) == 0 {
        return 0;
    }
    let Some(call) = task.call().filter(|&call| call & CALL_I386 == 0) else {
        return 0;
    };
    let Some(mm) = task.own_mm() else { return 0 };
    let mut arguments = [0; 3];
    // SAFETY: an own variable.
    unsafe { task.arguments(call, &raw mut arguments) };
    let [start, len, third] = arguments;
    let is_wanted = match call {
        SYS_MMAP => populates(mm, task.later_arguments()[0]),
        SYS_MADVISE => third == MADV_POPULATE_READ || third == MADV_POPULATE_WRITE,
        _ => true,
    };
    if !is_wanted || ctx.arg::<*const c_void>(0) as u64 != mm {
        return 0;
    }
    let Some(state) = scope::thread(task) else { return 0 };
    let Some(top) = top_table(mm) else { return 0 };
    // SAFETY: the current thread's own entry.
    unsafe {
        if call != SYS_MMAP {
            let end = start.wrapping_add(len);
            // Locked memory is a mapping of its own.
            if read_range(state, top, start, end) != 0 && call == SYS_MADVISE {
                let start = start >> PAGE << PAGE;
                let end = page_up(end);
                read_around(state, top, start & !(BLOCK - 1), start);
                read_around(state, top, end, end.wrapping_add(BLOCK - 1) & !(BLOCK - 1));
            }
            return 0;
        }
        let [_, descriptor, offset] = task.later_arguments();
        // Pages beyond the end of the file can't be mapped.
        let len = match task.open_file(descriptor & 0xffff_ffff) {
            Some((inode, _)) => len.min(inode.size().unwrap_or(u64::MAX).saturating_sub(offset)),
            None => len,
        };
        if start != 0 {
            read_range(state, top, start, start.wrapping_add(len));
        }
        let placed = &raw const (*state).faults.placed;
        let place = place_of(&*placed, arguments[1], offset);
        if place == 0 || place == start {
            return 0;
        }
        // Since 6.7, of aligned space found from above, the first huge page stays empty; otherwise, the last one does.
        if place == (*placed).start && (*placed).len > page_up(arguments[1]) {
            let behind = place.wrapping_add(BLOCK);
            if read_range(state, top, behind, behind.wrapping_add(len)) != 0 {
                return 0;
            }
        }
        read_range(state, top, place, place.wrapping_add(len));
    }
    0
}

/// Whether `mmap` with these flags maps pages of a file ahead (`do_mmap` in mm/mmap.c).
#[inline(always)]
fn populates(mm: u64, flags: u64) -> bool {
    if flags & (MAP_ANONYMOUS | MAP_SHARED) == MAP_ANONYMOUS {
        return false;
    }
    flags & (MAP_POPULATE | MAP_NONBLOCK) == MAP_POPULATE || flags & MAP_LOCKED != 0 || locks_new_mappings(mm)
}

/// The address of a mapping of `len` bytes from `offset` on in its file; 0: it was not that one that the kernel placed. For huge pages it looks
/// for more, and aligns the mapping within that like the file (`__thp_get_unmapped_area` in mm/huge_memory.c).
#[inline(always)]
fn place_of(placed: &Placed, len: u64, offset: u64) -> u64 {
    let len = page_up(len);
    if placed.len < len {
        return 0;
    }
    let skipped = if placed.len > len {
        offset.wrapping_sub(placed.start) & (BLOCK - 1)
    } else {
        0
    };
    placed.start.wrapping_add(skipped)
}

#[inline(always)]
fn page_up(address: u64) -> u64 {
    address.wrapping_add((1 << PAGE) - 1) >> PAGE << PAGE
}

/// What is read of a page table, downwards.
#[repr(C)]
struct Scan {
    block: Block,
    /// First address of the direct map.
    direct: u64,
    top: u64,
    /// End of what is still to be read.
    at: u64,
    /// What `at` was when the block began.
    entered: u64,
    /// First address of the range.
    start: u64,
    /// Nothing more is to be read.
    is_over: u64,
}

/// Sends the pages that are mapped up to the end of a range of addresses of the current thread, whose entry is `state`. 1: all
/// pages of the range are.
///
/// Exported, so that the verifier checks it once.
///
/// # Safety
/// `state` must be null or the current thread's.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn read_range(state: *mut ThreadState, top: u64, start: u64, end: u64) -> u32 {
    let start = start >> PAGE << PAGE;
    let end = page_up(end);
    if state.is_null() || config!(populated) == 0 || end <= start {
        return 0;
    }
    // SAFETY: by this function's own condition.
    let at = unsafe { scope::at(state, now()) };
    let direct = direct_map(top);
    if direct == DIRECT_MAP_HIDDEN || !scope::is_within(at.time) {
        return 0;
    }
    let Some(block) = Block::of(top, direct, end - 1) else {
        return 0;
    };
    let mut scan = Scan {
        block,
        direct,
        top,
        at: end,
        entered: end,
        start,
        is_over: 0,
    };
    // SAFETY: the function takes what is passed here, and a reserved record.
    unsafe {
        bpf_loop(MOST_STEPS, step as *mut c_void, (&raw mut scan).cast(), 0);
        if !scan.block.is_unchanged() {
            scan.at = scan.entered;
        }
        if scan.at < end {
            emit::pages_populated(at, |record: *mut PagesPopulated| {
                (*record).start = scan.at;
                (*record).end = end;
            });
        }
    }
    if scan.is_over == 0 {
        lose(Loss::PopulatedCut);
    }
    u32::from(scan.at == start)
}

/// Reads the chunk below. A static function, for the reason in [`crate::walk`].
unsafe extern "C" fn step(_: u32, scan: *mut c_void) -> c_long {
    let scan = scan.cast::<Scan>();
    // SAFETY: `read_range` passes its own variable.
    unsafe {
        let is_over = !goes_on(scan);
        (*scan).is_over = u64::from(is_over);
        c_long::from(is_over)
    }
}

/// # Safety
/// `scan` must be valid.
#[inline(always)]
unsafe fn goes_on(scan: *mut Scan) -> bool {
    // SAFETY: by this function's own condition.
    unsafe {
        let (at, start) = ((*scan).at, (*scan).start);
        if at & (BLOCK - 1) == 0 && at != (*scan).entered {
            if !(*scan).block.is_unchanged() {
                return false;
            }
            let Some(block) = Block::of((*scan).top, (*scan).direct, at - 1) else {
                (*scan).entered = at;
                return false;
            };
            (*scan).block = block;
            (*scan).entered = at;
        }
        if (*scan).block.is_huge() {
            (*scan).at = (at - 1 & !(BLOCK - 1)).max(start);
        } else {
            let last = (at - 1) >> PAGE & LAST_PAGE;
            let bits = read_chunk((*scan).block.page(0), last / CHUNK);
            if bits == UNREADABLE {
                return false;
            }
            // From the chunk's first page or the range's to the last one before `at`.
            let first = (at - 1 & !((CHUNK << PAGE) - 1)).max(start);
            let count = (at - first) >> PAGE;
            let from = first >> PAGE & (CHUNK - 1);
            let missing = !(bits >> from) & ((1 << count) - 1);
            if missing != 0 {
                (*scan).at = first + (u64::from(u64::BITS - missing.leading_zeros()) << PAGE);
                return false;
            }
            (*scan).at = first;
        }
        (*scan).at > start
    }
}

/// What is read next to a range, upwards within a block.
#[repr(C)]
struct Around {
    /// Address of the block's page table.
    table: u64,
    at: u64,
    end: u64,
    time: u64,
    pid: u32,
    tid: u32,
}

/// Sends the mapped pages from `start` to `end`, which are in one block: a fault at an end of the range maps pages around it, too. The
/// result has no meaning.
///
/// # Safety
/// As [`read_range`].
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn read_around(state: *mut ThreadState, top: u64, start: u64, end: u64) -> u32 {
    if state.is_null() || end <= start {
        return 0;
    }
    let Some(block) = Block::of(top, direct_map(top), start) else {
        return 0;
    };
    // SAFETY: by this function's own condition.
    let at = unsafe { scope::at(state, now()) };
    if block.is_huge() {
        emit::pages_populated(at, |record: *mut PagesPopulated| {
            // SAFETY: a reserved record.
            unsafe { ((*record).start, (*record).end) = (start, end) };
        });
        return 1;
    }
    let mut around = Around {
        table: block.page(0),
        at: start,
        end,
        time: at.time,
        pid: at.pid,
        tid: at.tid,
    };
    // SAFETY: the function takes what is passed here.
    unsafe {
        let steps = BLOCK_PAGES as u32 / CHUNK as u32;
        bpf_loop(steps, step_around as *mut c_void, (&raw mut around).cast(), 0);
    }
    1
}

/// Sends the mapped pages of a chunk. A static function, for the reason in [`crate::walk`].
unsafe extern "C" fn step_around(_: u32, around: *mut c_void) -> c_long {
    let around = around.cast::<Around>();
    // SAFETY: `read_around` passes its own variable.
    unsafe {
        let (at, end) = ((*around).at, (*around).end);
        if at >= end {
            return 1;
        }
        let page = at >> PAGE & LAST_PAGE;
        let bits = read_chunk((*around).table, page / CHUNK);
        if bits == UNREADABLE {
            return 1;
        }
        let from = page & (CHUNK - 1);
        let count = ((end - at) >> PAGE).min(CHUNK - from);
        let bits = bits >> from & ((1 << count) - 1);
        if bits != 0 {
            let thread = u64::from((*around).pid) << 32 | u64::from((*around).tid);
            send_runs((*around).time, thread, at, bits);
        }
        (*around).at = at + (count << PAGE);
    }
    0
}

/// Sends the pages of a chunk from the address `first` on that have a bit. `thread`: pid, tid. The result has no meaning.
///
/// Exported, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn send_runs(time: u64, thread: u64, first: u64, bits: u64) -> u32 {
    let at = At {
        time,
        pid: (thread >> 32) as u32,
        tid: thread as u32,
    };
    let mut left = bits & ((1 << CHUNK) - 1);
    // Between two runs is a page without a bit.
    for _ in 0..CHUNK / 2 {
        if left == 0 {
            break;
        }
        let start = u64::from(left.trailing_zeros());
        let count = u64::from((!(left >> start)).trailing_zeros());
        left &= !(((1 << count) - 1) << start);
        let start = first.wrapping_add(start << PAGE);
        emit::pages_populated(at, |record: *mut PagesPopulated| {
            // SAFETY: a reserved record.
            unsafe {
                (*record).start = start;
                (*record).end = start.wrapping_add(count << PAGE);
            }
        });
    }
    0
}
