//! What depends on the processor, one file for each: registers, system calls, page tables.
//!
//! Another processor is a file with the same items, chosen here; profiler/capture and profiler/unwind have such a folder, too.

mod x86_64;

pub use x86_64::{ARCH, arguments, call, first_argument, in_user_mode, is_exec, regs_of, table};
