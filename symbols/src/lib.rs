//! Address to function, inline chain, file and line. Knows no eBPF and no profile.
//!
//! - [`elf`]: what a binary is: build id, segments, sections for the unwinder.
//! - [`Symbolicator`]: names of addresses in binaries. Functions come from symbol tables and `.eh_frame`, read here so
//!   that a name never reaches beyond its function; inline chains and lines come from samply-symbols.
//! - [`server`]: the profiler's questions about symbols, sources and machine code, answered.
//! - [`home`]: the user's folders for what is kept.
//! - [`kallsyms`], [`perf_map`], [`jitdump`]: names of addresses in the kernel and in code made at run time.
//!
//! Every file is hostile: all lengths have limits, and damage costs names, not the program.

#![deny(unsafe_code)] // One exception: the mapping of ELF files.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))] // Tests say what they need by failing.

mod cfi;
mod contents;
mod demangle;
pub mod elf;
pub mod home;
pub mod jitdump;
pub mod kallsyms;
pub mod patience;
pub mod perf_map;
pub mod server;
mod spans;
mod symbolicator;
mod table;
mod vetted;

pub use demangle::demangle;
pub use symbolicator::{AddressName, BinaryRequest, Config, Debuginfod, Names, SourceFrame, SymbolError, Symbolicator};
pub use vetted::{open_patiently, open_plain};
