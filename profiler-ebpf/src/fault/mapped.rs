//! The pages of a file that are mapped around a fault when it ends, from the processor's page table.
//!
//! A fault maps what is in memory of a window of 16 pages around it (`do_fault_around`), and newer kernels the rest of the
//! page's folio (`finish_fault`): all within one page table. No tracepoint shows exactly which.

use core::ffi::{c_long, c_void};

use aya_ebpf::helpers::generated::bpf_loop;
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use profiler_common::fault::{
    BLOCK_PAGES, CHUNK, FAULT_EXCEPTION, FAULT_FAILED, FAULT_HAS_FILE, FAULT_HAS_MAPPED, FAULT_HAS_VMA, FaultBody,
    asked, error_code,
};
use profiler_common::scope::ThreadState;

use crate::arch::table::{self, Block, STEP};
use crate::kernel::{Task, top_table};
use crate::maps::{config, volatile};
use crate::read::probe;

/// First address at which the kernel has all memory mapped; [`DIRECT_MAP_UNKNOWN`]; [`DIRECT_MAP_HIDDEN`].
#[map]
static DIRECT_MAP: Array<u64> = Array::with_max_entries(1, 0);

/// Value of [`DIRECT_MAP`]: not looked for yet.
const DIRECT_MAP_UNKNOWN: u64 = 0;
/// Value of [`DIRECT_MAP`]: it was not found.
pub(super) const DIRECT_MAP_HIDDEN: u64 = 1;
/// Places in a GiB where the direct map may begin.
const PLACES: u32 = ((1 << 30) / STEP) as u32;

/// Number of chunks in a block.
const CHUNKS: usize = BLOCK_PAGES / CHUNK as usize;
/// Number of a block's last page.
pub(super) const LAST_PAGE: u64 = BLOCK_PAGES as u64 - 1;
/// `VM_SHARED` of include/linux/mm.h.
const VM_SHARED: u64 = 8;

/// Reads which pages are mapped around the innermost fault of the current thread, whose entry is `state`, if it is one of
/// a file and may have mapped more than its own page. 1: it was done.
///
/// Exported, as what it calls, so that the verifier checks each once: 6.1 would follow every way through all of them.
///
/// # Safety
/// `state` must be null or the current thread's.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn read_mapped(state: *mut ThreadState) -> u32 {
    if state.is_null() || config!(table_levels) == 0 {
        return 0;
    }
    // SAFETY: by this function's own condition.
    unsafe {
        let fault = &raw mut (*state).faults.inner;
        if !may_map_others(&raw const (*fault).body) {
            return 0;
        }
        let top = match (*fault).mm {
            0 => Task::current().mm_address().and_then(top_table),
            mm => top_table(mm),
        };
        let Some(top) = top else { return 0 };
        let direct = direct_map(top);
        if direct == DIRECT_MAP_HIDDEN || read_block(state, top, direct) == 0 {
            return 0;
        }
        (*fault).body.flags |= FAULT_HAS_MAPPED;
        (*fault).body.bounds = bounds((*fault).body.address, (*fault).range);
    }
    1
}

/// A write to a private mapping copies one page, and memory without a file has no pages to map around.
///
/// # Safety
/// `fault` must be readable.
#[inline(always)]
unsafe fn may_map_others(fault: *const FaultBody) -> bool {
    // SAFETY: by this function's own condition.
    unsafe {
        let flags = (*fault).flags;
        if flags & FAULT_FAILED != 0 || flags & (FAULT_HAS_VMA | FAULT_HAS_FILE) == FAULT_HAS_VMA {
            return false;
        }
        let writes = if flags & FAULT_EXCEPTION != 0 {
            (*fault).error_code & error_code::WRITE != 0
        } else {
            (*fault).asked & asked::WRITE != 0
        };
        !(writes && flags & FAULT_HAS_VMA != 0 && (*fault).vma.flags & VM_SHARED == 0)
    }
}

/// Reads the entries around the fault, and the others of the block if a folio may extend to them. 0: nothing is mapped, or
/// the table changed meanwhile.
///
/// # Safety
/// `state` must be null or the current thread's.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn read_block(state: *mut ThreadState, top: u64, direct: u64) -> u32 {
    if state.is_null() {
        return 0;
    }
    // SAFETY: by this function's own condition.
    unsafe {
        let body = &raw mut (*state).faults.inner.body;
        let address = (*body).address;
        let Some(block) = Block::of(top, direct, address) else {
            return 0;
        };
        if block.is_huge() {
            (*body).mapped = [u16::MAX; CHUNKS];
            return 1;
        }
        let middle = (address >> 12 & LAST_PAGE) / CHUNK;
        let page = |number: u64| page_at(block.page(number));
        // In a folio, pages are one behind the other in memory, too.
        let is_folio = |number: u64| page(number) != 0 && page(number) + 1 == page(number + 1);
        // The window is `middle`; newer kernels map each folio in it to its end.
        let (first, end) = (middle.saturating_sub(1) * CHUNK, (middle + 2) * CHUNK);
        let extends = first > 0 && is_folio(first - 1) || end <= LAST_PAGE && is_folio(end - 1);
        // A bit for each: were they bounds, the verifier of 6.1 would follow the loop for every pair of them.
        let wanted = if extends || config!(wide_around) != 0 {
            u64::MAX
        } else {
            7 << middle >> 1
        };
        for chunk in 0..CHUNKS as u64 {
            if wanted >> chunk & 1 == 0 {
                continue;
            }
            let bits = read_chunk(block.page(0), chunk);
            if bits == UNREADABLE {
                return 0;
            }
            let mapped = (&raw mut (*state).faults.inner.body.mapped).cast::<u16>();
            *mapped.add(chunk as usize & (CHUNKS - 1)) = bits as u16;
        }
        u32::from(block.is_unchanged())
    }
}

/// Number of the page that the entry at this address maps; 0: it can't be read.
///
/// Exported, as [`read_chunk`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn page_at(entry: u64) -> u64 {
    probe(entry, 0).map_or(0, table::page_of)
}

/// Result of [`read_chunk`]: the entries can't be read.
pub(super) const UNREADABLE: u64 = u64::MAX;

/// [`table::chunk`], or [`UNREADABLE`].
///
/// Exported: to the verifier the result is any number. Where it can see how the bits arise, 7.2 follows each combination of them through what its
/// caller compares.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn read_chunk(table: u64, number: u64) -> u64 {
    table::chunk(table, number).unwrap_or(UNREADABLE)
}

/// The pages of the block that belong to the mapping, from the first to the one after the last; zeroes if its range is
/// unknown.
#[inline(always)]
fn bounds(address: u64, range: [u64; 2]) -> [u16; 2] {
    let block = address >> 12 & !LAST_PAGE;
    let page = |address: u64| (address >> 12).saturating_sub(block).min(BLOCK_PAGES as u64) as u16;
    range.map(page)
}

/// Where the kernel has all memory mapped: a random place that no program can read.
#[inline(always)]
pub(super) fn direct_map(top: u64) -> u64 {
    let known = DIRECT_MAP.get(0).map_or(DIRECT_MAP_HIDDEN, volatile);
    if known != DIRECT_MAP_UNKNOWN {
        return known;
    }
    let mut search = Search {
        top,
        found: DIRECT_MAP_HIDDEN,
    };
    // SAFETY: the function takes what is passed here.
    unsafe {
        bpf_loop(
            config!(physical_end) * PLACES + 1,
            is_direct_map as *mut c_void,
            (&raw mut search).cast(),
            0,
        );
        if let Some(place) = DIRECT_MAP.get_ptr_mut(0) {
            *place = search.found;
        }
    }
    search.found
}

/// The search for the direct map.
#[repr(C)]
struct Search {
    /// An address in it.
    top: u64,
    found: u64,
}

/// Tries one place, the nearest first. A static function, for the reason in [`crate::walk`].
unsafe extern "C" fn is_direct_map(number: u32, search: *mut c_void) -> c_long {
    let search = search.cast::<Search>();
    // SAFETY: `direct_map` passes its own variable.
    unsafe {
        let top = (*search).top;
        let direct = (top & !(STEP - 1)).wrapping_sub(u64::from(number) * STEP);
        if !table::maps_itself(top, direct) {
            return 0;
        }
        (*search).found = direct;
    }
    1
}
