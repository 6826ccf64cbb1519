//! Sends each distinct stack once: sent stacks are remembered by their keys.
//!
//! The memory is a table with two places for each key: [`profiler_common::sent`]. A key that finds both taken replaces the older one, and that stack
//! is sent again when it reappears; readers of the log see how often.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_get_stack;
use profiler_common::sent::{first_place, pair};
use profiler_common::stack::{MAX_KERNEL_FRAMES, MAX_USER_FRAMES, StackHead, mix};
use profiler_common::{Loss, RecordKind};

use crate::emit::{At, lose, output};
use crate::maps::{SENT, config};
use crate::walk::{self, WALKS, Walk, absorb};

/// The key of the user stack that `walk` holds, sent if it was not before. 0: the ring has no space for it, or it
/// has no frame.
///
/// # Safety
/// `walk` must come from [`crate::walk::acquire`].
#[inline(always)]
pub unsafe fn user_stack(walk: *mut Walk, at: At) -> u64 {
    // SAFETY: by this function's own condition.
    unsafe {
        let count = (*walk).head.count + (*walk).outer;
        if count == 0 {
            return 0;
        }
        let key = mix((*walk).head.key, u64::from((*walk).head.end) << 32 | u64::from(count)) | 1;
        (*walk).head.key = key;
        if is_known(key) {
            return key;
        }
        if config!(walk) != 0 && (*walk).outer != 0 {
            walk::fill_outer((*walk).level());
        }
        sent(walk, RecordKind::UserStack, at)
    }
}

/// The key of the kernel stack of the running thread, sent if it was not before. 0: as [`user_stack`].
///
/// # Safety
/// As [`user_stack`]. The walk's previous contents are lost.
#[inline(always)]
pub unsafe fn kernel_stack(walk: *mut Walk, ctx: &impl EbpfContext, at: At) -> u64 {
    const SIZE: u32 = (MAX_KERNEL_FRAMES * 8) as u32;
    // SAFETY: by this function's own condition; the helper writes at most the given size, which the array has.
    unsafe {
        let bytes = bpf_get_stack(ctx.as_ptr(), (&raw mut (*walk).frames).cast(), SIZE, 0);
        if bytes <= 0 {
            return 0;
        }
        (*walk).head.count = (bytes as usize / 8).min(MAX_KERNEL_FRAMES) as u32;
        (*walk).head.end = 0;
        (*walk).head.key = key_of_kernel_frames((*walk).level());
        if is_known((*walk).head.key) {
            return (*walk).head.key;
        }
        sent(walk, RecordKind::KernelStack, at)
    }
}

/// The key of the kernel stack that the walk of this number holds.
///
/// Exported, so that the verifier follows its loop once rather than with each path that leads here.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn key_of_kernel_frames(level: u32) -> u64 {
    let Some(walk) = WALKS.get_ptr(level) else { return 0 };
    let mut hash = 1;
    // SAFETY: this CPU's walk, of the program that called; the array has as many frames.
    unsafe {
        let count = (*walk).head.count;
        for index in 0..MAX_KERNEL_FRAMES {
            if index >= count as usize {
                break;
            }
            hash = absorb(hash, (&raw const (*walk).frames).cast::<u64>().add(index).read());
        }
        mix(hash, u64::from(count)) | 1
    }
}

#[inline(always)]
fn is_known(key: u64) -> bool {
    let first = first_place(pair(key));
    let is_at = |place| SENT.get(place) == Some(&key);
    is_at(first) || is_at(first | 1)
}

/// # Safety
/// As [`user_stack`].
#[inline(always)]
unsafe fn sent(walk: *mut Walk, kind: RecordKind, at: At) -> u64 {
    // SAFETY: by this function's own condition.
    let key = unsafe { (*walk).head.key };
    let first = first_place(pair(key));
    let (Some(newer), Some(older)) = (SENT.get_ptr_mut(first), SENT.get_ptr_mut(first | 1)) else {
        return 0;
    };
    // SAFETY: whole words; two CPUs that write at once cost a stack that is sent twice.
    unsafe {
        let len = size_of::<StackHead>() + ((*walk).head.count as usize).min(MAX_USER_FRAMES) * 8;
        (*walk).head.header = at.header(kind, len as u32);
        if !output((&raw const (*walk).head).cast(), len) {
            lose(Loss::StackRingFull);
            return 0;
        }
        *older = *newer;
        *newer = key;
    }
    key
}
