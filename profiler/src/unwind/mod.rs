//! Addresses to stacks: copied user stacks are unwound, kernel frames joined to them, and both interned.
//!
//! framehop follows the ordinary rules, and remembers them; `cfi` says beforehand whether a rule is one of those, follows
//! the others (signal frames, realigned stacks, the lazy binder), and tells why a stack ends where it does. All processes
//! share one set of modules, because each module lies in an address range of its own that is none of theirs.

mod binary;
mod cfi;
mod copy;
mod intern;
mod step;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;

use symbols::elf::ElfFile;

pub use binary::Modules;
pub use intern::Interner;
pub use walk::{Place, RawFrame, UserStack, Walk, Walker};

use crate::event::FileId;

/// Opens the files behind mappings; a shell's task.
pub trait Binaries {
    /// The ELF file that was mapped.
    ///
    /// # Errors
    /// In words that a person reads: why it can't be read, or that it is another file by now.
    fn open(&self, module: &ModuleKey<'_>) -> Result<Arc<ElfFile>, String>;
}

/// Which file is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleKey<'a> {
    /// Device and inode.
    pub file: FileId,
    /// Path as the process saw it, or `[vdso]`.
    pub path: &'a str,
    /// Build id, if the mapping told it.
    pub build_id: &'a [u8],
}

/// No file can be opened: for logs that are complete.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBinaries;

impl Binaries for NoBinaries {
    fn open(&self, _: &ModuleKey<'_>) -> Result<Arc<ElfFile>, String> {
        Err("not opened: the log is read without the binaries".to_owned())
    }
}
