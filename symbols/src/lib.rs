//! Address to function, inline chain, file and line. Knows no eBPF and no profile.

mod cfi;
mod demangle;
pub mod elf;
pub mod kallsyms;
mod symbolicator;
mod table;

pub use demangle::demangle;
pub use symbolicator::{AddressName, BinaryRequest, Config, Debuginfod, Names, SourceFrame, SymbolError, Symbolicator};
