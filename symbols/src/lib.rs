//! Address to function, inline chain, file and line. Knows no eBPF and no profile.

mod cfi;
mod demangle;
pub mod elf;
mod table;

pub use demangle::demangle;
