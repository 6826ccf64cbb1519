//! What depends on the processor, one file for each: registers, system calls, page tables.
//!
//! Another processor is a file with the same items, chosen here; profiler/capture and profiler/unwind have such a folder, too. The build
//! passes the processor (scripts/build-ebpf), because the compiler's target is the same for all.

#[cfg(bpf_target_arch = "aarch64")]
mod aarch64;
#[cfg(bpf_target_arch = "x86_64")]
mod x86_64;

#[cfg(bpf_target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(bpf_target_arch = "x86_64")]
pub use x86_64::*;
