//! Address to function, inline chain, file and line. Knows no eBPF and no profile.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))] // Tests say what they need by failing.

mod cfi;
mod demangle;
pub mod elf;
pub mod jitdump;
pub mod kallsyms;
pub mod perf_map;
mod spans;
mod symbolicator;
mod table;

pub use demangle::demangle;
pub use symbolicator::{AddressName, BinaryRequest, Config, Debuginfod, Names, SourceFrame, SymbolError, Symbolicator};
