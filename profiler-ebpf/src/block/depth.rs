//! How many requests each device has at a time.

use crate::maps::IN_FLIGHT;

/// Counts a new request of a device, and returns how many it has.
#[inline(always)]
pub fn device_got_one(device: u32) -> u32 {
    if IN_FLIGHT.get_ptr(&device).is_none() {
        let _ = IN_FLIGHT.insert(&device, &0, 0); // more devices than fit have no depth
    }
    let Some(count) = IN_FLIGHT.get_ptr_mut(&device) else {
        return 0;
    };
    // SAFETY: one word. Another CPU may change it between the two statements: the depth is approximate.
    unsafe {
        add(count, 1);
        core::ptr::read_volatile(count) as u32
    }
}

/// Adds without losing what another CPU adds at the same time.
///
/// # Safety
/// `count` must be in a map.
#[inline(always)]
unsafe fn add(count: *mut u64, difference: u64) {
    // SAFETY: by this function's own condition. The result is not used, since that requires a newer instruction set.
    unsafe {
        core::intrinsics::atomic_xadd::<u64, u64, { core::intrinsics::AtomicOrdering::SeqCst }>(count, difference)
    };
}

/// Counts the end of one of its requests.
#[inline(always)]
pub fn device_lost_one(device: u32) {
    if let Some(count) = IN_FLIGHT.get_ptr_mut(&device) {
        // SAFETY: as above.
        unsafe { add(count, u64::MAX) };
    }
}
