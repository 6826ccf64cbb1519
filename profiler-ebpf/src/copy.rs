//! Copies of user memory: the part of a stack that could not be walked.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use profiler_common::stack::{FLAG_STACK_STOPPED, FLAG_STACK_UNREADABLE, Stacks};

use crate::maps::volatile;

const PAGE: u64 = 4096;

/// The stacks of an event, and how much of the user stack remains to be copied.
pub struct Captured {
    /// The stacks as far as they were walked.
    pub stacks: Stacks,
    /// Bytes to copy from the registers' stack pointer upward.
    pub want: u64,
}

/// Copies at most `want` bytes of the user stack and returns how many, with the flags that give the reason for fewer.
///
/// # Safety
/// `to` must be writable.
#[inline(always)]
pub unsafe fn copy<const N: usize>(to: *mut [u8; N], sp: u64, want: u64) -> (u32, u32) {
    // Clamped where the verifier sees it: the caller may have compared a copy of the number.
    let want = volatile(&want).min(N as u64);
    if want == 0 {
        return (0, 0);
    }
    // SAFETY: `want` is at most the buffer's size.
    if unsafe { read(to.cast(), want, sp) } {
        return (want as u32, 0);
    }
    // SAFETY: as above.
    let copied = unsafe { copy_pages(to, sp, want) };
    (
        copied,
        if copied == 0 {
            FLAG_STACK_UNREADABLE
        } else {
            FLAG_STACK_STOPPED
        },
    )
}

/// Copies page by page up to the first one that can't be read: a read of many pages is all or nothing.
///
/// # Safety
/// `to` must be writable.
#[inline(always)]
unsafe fn copy_pages<const N: usize>(to: *mut [u8; N], sp: u64, want: u64) -> u32 {
    let to = to.cast::<u8>();
    let first = PAGE - (sp & (PAGE - 1));
    // SAFETY: a page is at most the buffer's size.
    if !unsafe { read(to, first, sp) } {
        return 0;
    }
    let mut copied = first;
    for _ in 1..N as u64 / PAGE {
        let room = N as u64 - PAGE;
        // SAFETY: the offset leaves space for a page.
        if copied >= want || copied > room || !unsafe { read(to.add(copied.min(room) as usize), PAGE, sp + copied) } {
            break;
        }
        copied += PAGE;
    }
    copied.min(want) as u32
}

/// # Safety
/// `to` must have space for `len` bytes.
#[inline(always)]
pub unsafe fn read(to: *mut u8, len: u64, from: u64) -> bool {
    // SAFETY: by this function's own condition; the helper refuses user addresses that can't be read.
    unsafe { bpf_probe_read_user(to.cast(), len as u32, from as *const c_void) == 0 }
}
