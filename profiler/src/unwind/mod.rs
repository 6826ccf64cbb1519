//! Addresses to stacks: copied user stacks are unwound, kernel frames joined to them, and both interned.
//!
//! framehop follows the ordinary rules, and remembers them; `cfi` says beforehand whether a rule is one of those, follows
//! the others (signal frames, realigned stacks, the lazy binder), and tells why a stack ends where it does. All processes
//! share one set of modules, because each module lies in an address range of its own that is none of theirs.

mod binary;
mod by_rules;
mod cfi;
mod copy;
mod intern;
mod steps;
pub mod table;
mod walk;
mod walked;

use std::sync::Arc;

use symbols::elf::ElfFile;

pub use binary::{Content, Modules};
pub use intern::{Interner, JitFunction, Known};
pub use walk::{FRAME_LIMIT, Mapped, Place, RawFrame, Walk, Walker};
pub use walked::{End, Walked};

use crate::event::FileId;

/// Opens the files behind mappings; implemented by the shell.
pub trait Binaries {
    /// The ELF file that was mapped. `path` is as the process saw it, or `[vdso]`; `build_id` is empty if the mapping did not
    /// tell it.
    ///
    /// # Errors
    /// In words that a person reads: why it can't be read, or that it is another file by now.
    fn elf(&self, file: FileId, path: &str, build_id: &[u8]) -> Result<Arc<ElfFile>, String>;
}

/// No file can be opened: for logs that are complete.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBinaries;

impl Binaries for NoBinaries {
    fn elf(&self, _: FileId, _: &str, _: &[u8]) -> Result<Arc<ElfFile>, String> {
        Err("not opened: the log is read without the binaries".to_owned())
    }
}
