//! A section in which no other thread takes the CPU.
//!
//! Programs on entry and exit of functions may be preempted, and on newer kernels those on tracepoints too; while one is, the kernel skips it for any thread that runs on that CPU
//! meanwhile. `bpf_preempt_disable` and `bpf_preempt_enable` are not numbered helpers but functions of the kernel (6.10 and later), which
//! aya can't call: user space writes their ids over the calls below, or nothing where they are absent or useless
//! (profiler/capture/src/hooks/preempt.rs).

use core::mem::transmute;

use profiler_common::preempt::{DISABLE, ENABLE};

/// Ends the section when it is dropped.
pub struct Held;

impl Held {
    #[inline(always)]
    pub fn new() -> Self {
        // SAFETY: user space replaces the call.
        unsafe {
            let disable: unsafe extern "C" fn() = transmute(DISABLE as usize);
            disable();
        }
        Self
    }
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe {
            let enable: unsafe extern "C" fn() = transmute(ENABLE as usize);
            enable();
        }
    }
}
