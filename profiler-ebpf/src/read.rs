//! Reads kernel memory at an address or a field's offset.

use core::ffi::c_void;
use core::mem::MaybeUninit;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use profiler_common::config::MISSING;

/// Loads a `T` at `base + offset`; `None` where this kernel has no such field.
#[inline(always)]
pub fn load<T: Copy>(base: *const c_void, offset: u32) -> Option<T> {
    if offset == MISSING {
        return None;
    }
    // SAFETY: `base` is a kernel pointer that the verifier knows the type of, and it checks the offset against that type.
    Some(unsafe { core::ptr::read_volatile(base.byte_add(offset as usize).cast::<T>()) })
}

/// Reads a `T` at `base + offset`, where the verifier sees only a number.
///
/// Also pointers that are rarely needed: for each load of a field that is a pointer, the verifier of 6.18 and earlier searches all the
/// kernel's types by name, several times, which takes a millisecond.
#[inline(always)]
pub fn probe<T: Copy>(base: u64, offset: u32) -> Option<T> {
    if offset == MISSING {
        return None;
    }
    let mut value = MaybeUninit::<T>::uninit();
    let from = base.wrapping_add(u64::from(offset)) as *const c_void;
    // SAFETY: the helper writes the whole value, with zeroes if it can't be read.
    unsafe {
        let failed = bpf_probe_read_kernel(value.as_mut_ptr().cast(), size_of::<T>() as u32, from) != 0;
        (!failed).then(|| value.assume_init())
    }
}
