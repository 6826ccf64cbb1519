//! Sends each distinct stack once: sent stacks are remembered by their keys.
//!
//! The memory is a table with two places for each key: [`profiler_common::sent`]. A key that finds both taken replaces the older one, and that stack
//! is sent again when it reappears; readers of the log see how often.

use core::ffi::{c_long, c_void};

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{bpf_get_stack, bpf_loop};
use profiler_common::sent::{first_place, pair};
use profiler_common::stack::{KERNEL_KEY, MAX_KERNEL_FRAMES, MAX_USER_FRAMES, StackHead, absorb, kernel_key, mix};
use profiler_common::{Loss, RecordKind};

use crate::emit::{At, lose, output};
use crate::maps::{SENT, config};
use crate::walk::{self, WALKS, Walk};

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
        (*walk).head.key = mix((*walk).head.key, u64::from((*walk).head.end) << 32 | u64::from(count)) | 1;
        key_of_sent((*walk).level(), RecordKind::UserStack as u32, at.time, at.pid, at.tid)
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
        (*walk).outer = 0;
        (*walk).head.key = key_of_kernel_frames((*walk).level());
        key_of_sent((*walk).level(), RecordKind::KernelStack as u32, at.time, at.pid, at.tid)
    }
}

/// Frames that one turn of the loop over a kernel stack adds: a turn itself costs as much as several.
const AT_ONCE: u32 = 8;

/// The key of a kernel stack as far as it has been computed.
#[repr(C)]
struct Key {
    hash: u64,
    level: u32,
    /// The next frame.
    index: u32,
}

/// The key of the kernel stack that the walk of this number holds.
///
/// Exported, so that the verifier checks it once rather than with each path that leads here.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn key_of_kernel_frames(level: u32) -> u64 {
    let Some(walk) = WALKS.get_ptr(level) else { return 0 };
    let mut key = Key {
        hash: KERNEL_KEY,
        level,
        index: 0,
    };
    // SAFETY: this CPU's walk, of the program that called; the loop gets its own variable.
    unsafe {
        bpf_loop(
            (MAX_KERNEL_FRAMES as u32).div_ceil(AT_ONCE),
            absorb_some as *mut c_void,
            (&raw mut key).cast(),
            0,
        );
        kernel_key(key.hash, (*walk).head.count)
    }
}

/// Adds some frames. 1: these were the last ones. A static function, for the reason in [`crate::walk`].
unsafe extern "C" fn absorb_some(_: u32, key: *mut c_void) -> c_long {
    // SAFETY: `key_of_kernel_frames` passes its own variable, and the walk is its caller's; the index is within the array.
    unsafe {
        let key = key.cast::<Key>();
        let Some(walk) = WALKS.get_ptr((*key).level) else {
            return 1;
        };
        for _ in 0..AT_ONCE {
            let index = (*key).index;
            if index >= (*walk).head.count {
                return 1;
            }
            let frames = (&raw const (*walk).frames).cast::<u64>();
            let frame = frames.add(index as usize & (MAX_USER_FRAMES - 1)).read();
            (*key).hash = absorb((*key).hash, frame);
            (*key).index = index + 1;
        }
    }
    0
}

/// The key of the stack that the walk of this number holds, which is sent in a record of this kind if it was not before. 0: the ring has no space for it.
///
/// Exported, so that the verifier checks it once rather than with each path that leads here.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn key_of_sent(level: u32, kind: u32, time: u64, pid: u32, tid: u32) -> u64 {
    let Some(walk) = WALKS.get_ptr_mut(level) else { return 0 };
    // SAFETY: this CPU's walk, of the program that called.
    let key = unsafe { (*walk).head.key };
    let first = first_place(pair(key));
    let (Some(newer), Some(older)) = (SENT.get_ptr_mut(first), SENT.get_ptr_mut(first | 1)) else {
        return 0;
    };
    // SAFETY: as above. Whole words; two CPUs that write at once cost a stack that is sent twice.
    unsafe {
        if *newer == key || *older == key {
            return key;
        }
        if config!(walk) != 0 && (*walk).outer != 0 {
            walk::fill_outer(level);
        }
        let len = size_of::<StackHead>() + ((*walk).head.count as usize).min(MAX_USER_FRAMES) * 8;
        let kind = if kind == RecordKind::UserStack as u32 {
            RecordKind::UserStack
        } else {
            RecordKind::KernelStack
        };
        (*walk).head.header = At { time, pid, tid }.header(kind, len as u32);
        if !output((&raw const (*walk).head).cast(), len) {
            lose(Loss::StackRingFull);
            return 0;
        }
        *older = *newer;
        *newer = key;
    }
    key
}
