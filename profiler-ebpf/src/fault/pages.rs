//! Pages that were read into the page cache during a fault, and waits for memory.

use core::ffi::c_void;

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use profiler_common::fault::{PagesRead, ReadRun, ThreadFaults};

use super::{current_fault, is_open};
use crate::emit::{self, At, now};
use crate::kernel::Folio;
use crate::preempt::Held;
use crate::scope;

/// `mm_filemap_add_to_page_cache(struct folio *folio)`: neighbours of one size are sent together.
#[btf_tracepoint(function = "mm_filemap_add_to_page_cache")]
pub fn mm_filemap_add_to_page_cache(ctx: BtfTracePointContext) -> i32 {
    let _held = Held::new();
    let Some(state) = scope::current_thread() else { return 0 };
    let folio = Folio::new(ctx.arg::<*const c_void>(0));
    let Some(place) = folio.place() else { return 0 };
    // SAFETY: the current thread's own entry.
    unsafe {
        let faults = &raw mut (*state).faults;
        let in_fault = is_open(&(*faults).inner);
        if in_fault {
            (*faults).inner.body.read += place.count;
        }
        let run = &raw mut (*faults).run;
        let goes_on = (*run).count != 0
            && (*run).inode == place.inode
            && (*run).device == place.device
            && (*run).in_fault == u16::from(in_fault)
            && (*run).order == place.order
            && (*run).first + u64::from((*run).count) == place.first;
        if goes_on {
            (*run).count += place.count;
            return 0;
        }
        let at = scope::at(state, now());
        if !scope::is_within(at.time) {
            return 0;
        }
        tell(faults, at);
        *run = ReadRun {
            since: at.time,
            in_fault: u16::from(in_fault),
            ..place
        };
    }
    0
}

/// Sends the pages that were read and not sent yet.
///
/// # Safety
/// `faults` must be the current thread's.
#[inline(always)]
pub unsafe fn tell(faults: *mut ThreadFaults, at: At) {
    // SAFETY: by this function's own condition.
    unsafe {
        if (*faults).run.count == 0 {
            return;
        }
        emit::pages_read(at, |record: *mut PagesRead| (*record).run = (*faults).run);
        (*faults).run.count = 0;
    }
}

macro_rules! waits_for_memory {
    ($($begin:ident, $end:ident;)*) => {$(
        /// Waiting for memory begins.
        #[btf_tracepoint]
        pub fn $begin(_: BtfTracePointContext) -> i32 {
            memory_wait_begins()
        }

        /// Waiting for memory ends.
        #[btf_tracepoint]
        pub fn $end(_: BtfTracePointContext) -> i32 {
            memory_wait_ends()
        }
    )*};
}

waits_for_memory! {
    mm_vmscan_direct_reclaim_begin, mm_vmscan_direct_reclaim_end;
    mm_vmscan_memcg_reclaim_begin, mm_vmscan_memcg_reclaim_end;
    mm_compaction_begin, mm_compaction_end;
}

#[inline(always)]
fn memory_wait_begins() -> i32 {
    let _held = Held::new();
    if let Some(fault) = current_fault() {
        // SAFETY: the current thread's own entry.
        unsafe { (*fault).reclaim_since = now() };
    }
    0
}

#[inline(always)]
fn memory_wait_ends() -> i32 {
    let _held = Held::new();
    if let Some(fault) = current_fault() {
        // SAFETY: as above.
        unsafe {
            if (*fault).reclaim_since != 0 {
                (*fault).body.waits.reclaim += now().saturating_sub((*fault).reclaim_since);
                (*fault).reclaim_since = 0;
            }
        }
    }
    0
}
