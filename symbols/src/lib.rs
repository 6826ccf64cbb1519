//! Maps addresses to functions, inline chains, files and lines. Independent of eBPF and of
//! profiles.
//!
//! - [`elf`]: properties of a binary: build id, segments, sections for the unwinder.
//! - [`Symbolicator`]: names of addresses in binaries. Functions come from symbol tables, `.eh_frame` and the tables of
//!   Go programs, read here so that a name never reaches beyond its function; inline chains and lines come from
//!   samply-symbols, and for Go programs without DWARF from the same tables.
//! - [`server`]: answers the profiler's requests for symbols, sources and machine code.
//! - [`home`]: the user's folders for cached and saved files.
//! - [`kallsyms`], [`perf_map`], [`jitdump`]: names of addresses in the kernel and in code
//!   generated at run time.
//!
//! Every file is untrusted: all lengths are limited, and damage costs names but never ends the
//! program.
//!
//! The build ID of a file, and where its code is:
//!
//! ```
//! use symbols::elf::ElfFile;
//!
//! let elf = ElfFile::open(std::fs::File::open(std::env::current_exe()?)?)?;
//! println!("{:02x?}", elf.build_id());
//! assert!(elf.segments().iter().any(|segment| segment.executable));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)] // One exception: the mapping of ELF files.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))] // A failed unwrap fails the test.

mod cfi;
mod contents;
mod demangle;
mod download;
pub mod elf;
mod gopclntab;
pub mod home;
pub mod jitdump;
pub mod kallsyms;
pub mod mozilla;
mod notes;
pub mod patience;
pub mod perf_map;
mod scratch;
pub mod server;
mod spans;
mod store;
mod symbolicator;
mod table;
mod vetted;

pub use demangle::demangle;
pub use download::{OnDownload, server_url};
pub use symbolicator::{
    AddressName, AddressNames, BinaryRequest, Config, Debuginfod, SourceFrame, SymbolError, SymbolServers, Symbolicator,
};
pub use vetted::{open_patiently, open_plain};
