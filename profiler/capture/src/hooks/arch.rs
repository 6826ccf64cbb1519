//! What recording depends on: the processor of this machine, one file for each.
//!
//! Another processor is a file with the same items, chosen here; profiler-ebpf and profiler/unwind have such a folder,
//! too. Without one, recording is refused, and everything that reads recordings works.

#[cfg(not(target_arch = "x86_64"))]
mod unsupported;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
pub use unsupported::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
