//! The stacks of recent waits, for later ones that seem to have the same.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use profiler_common::stack::mix;
use profiler_common::switch::{
    ThreadWaits, WAIT_IN_CALL, WAIT_IN_FAULT, WAIT_IO, WAIT_LIKE_EARLIER, WAIT_PREEMPTED, WaitBody,
};

use crate::stack::{Place, Record};

/// Capacity for the stacks of waits on each CPU, a power of two.
const SITES_PLACES: u32 = 1 << 10;
/// The flags that distinguish the ways of waiting.
pub const KIND: u32 = WAIT_PREEMPTED | WAIT_IO | WAIT_IN_FAULT | WAIT_IN_CALL;

/// Stacks of waits that were walked.
#[map]
static SITES: PerCpuArray<Site> = PerCpuArray::with_max_entries(SITES_PLACES, 0);

/// The stacks of a wait that was walked.
#[derive(Clone, Copy)]
struct Site {
    hash: u64,
    stacks: Record,
}

/// What waits with the same stack have in common, as far as registers show.
#[inline(always)]
pub fn site_of(space: u64, tid: u32, place: &Place, wait: &WaitBody) -> u64 {
    let regs = &place.regs;
    let mut hash = mix(space ^ u64::from(tid) << 32, regs.ip);
    hash = mix(hash ^ regs.sp, regs.fp);
    mix(
        hash,
        u64::from(wait.call) << 32 | u64::from(wait.flags & KIND) << 16 | u64::from(wait.state),
    ) | 1
}

/// Takes the stacks of an earlier wait at the same site; false: there was none recently.
///
/// # Safety
/// `waits` must be the current thread's.
#[inline(always)]
pub unsafe fn like_earlier(waits: *mut ThreadWaits, hash: u64) -> bool {
    let Some(site) = SITES.get_ptr(hash as u32 & (SITES_PLACES - 1)) else {
        return false;
    };
    // SAFETY: this CPU's own, and by this function's own condition.
    unsafe {
        if (*site).hash != hash {
            return false;
        }
        (*waits).stacks = (*site).stacks;
        (*waits).now.flags |= WAIT_LIKE_EARLIER;
    }
    true
}

/// Keeps the stacks of a wait for later ones at the same site.
#[inline(always)]
pub fn remember(hash: u64, stacks: &Record) {
    if let Some(site) = SITES.get_ptr_mut(hash as u32 & (SITES_PLACES - 1)) {
        // SAFETY: this CPU's own, and the scheduler's program does not interrupt itself.
        unsafe {
            *site = Site { hash, stacks: *stacks };
        }
    }
}
