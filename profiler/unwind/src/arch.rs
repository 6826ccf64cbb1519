//! What the unwinding of copied stacks depends on: the processor of the recording, one file for each.
//!
//! Another processor is a file with the same items. Unwind tables ([`crate::table`]) and steps along them
//! (`profiler_common::unwind`) know x86-64 and arm64 already, and take the processor as a value: an event log is also
//! converted on other processors than its own.

mod x86_64;

pub use x86_64::{ARCH, Cache, ELF, FP, RA, RED_ZONE, SIGNAL_FRAME, SP, Unwinder, frame_registers};

/// Where the kernel saves the interrupted registers when it delivers a signal, in bytes above the stack pointer.
pub struct SignalFrame {
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
}
