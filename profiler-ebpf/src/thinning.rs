//! What is left out while the recording costs more than its limit, and what the rest costs.

use aya_ebpf::helpers::bpf_get_prandom_u32;
use profiler_common::thinning::{Group, MOST};

use crate::cpu;
use crate::emit::{between, now};
use crate::maps::{LEVELS, SPENT, config, volatile};

/// The level of a group.
#[inline(always)]
pub fn level(group: Group) -> u32 {
    if config!(thins) == 0 {
        return 0;
    }
    match LEVELS.get(0) {
        // User space may change it at any time.
        Some(levels) => volatile(&levels.0[group as usize]).min(MOST),
        None => 0,
    }
}

/// True in one of 2^`level` calls, at random.
#[inline(always)]
pub fn is_chosen(level: u32) -> bool {
    // SAFETY: the helper has no preconditions.
    level == 0 || unsafe { bpf_get_prandom_u32() } >> (32 - (level & 31)) == 0
}

/// Adds the time since `since` for which the current thread had this CPU: some programs may be preempted.
#[inline(always)]
pub fn spend(group: Group, since: u64) {
    if config!(thins) == 0 {
        return;
    }
    if let Some(spent) = SPENT.get_ptr_mut(0) {
        // SAFETY: this CPU's own. A sample may interrupt another program between load and store, which then loses the
        // sample's part.
        unsafe {
            let spent = &raw mut (*spent).0[group as usize];
            *spent += between(since.max(cpu::switched_in()), now());
        }
    }
}
