//! Converts addresses to stacks: unwinds copied user stacks, and determines why a stack ends.
//!
//! framehop follows the ordinary rules and caches them; `cfi` determines in advance whether a rule
//! is ordinary, follows the others (signal frames, realigned stacks, the lazy binder), and reports
//! why a stack ends where it does. All processes share one set of modules: each module has a unique
//! address range, independent of the processes.
//!
//! The unwind table of a file, as the eBPF programs read it:
//!
//! ```
//! use std::fs::File;
//! use symbols::elf::ElfFile;
//!
//! let elf = ElfFile::open(File::open(std::env::current_exe()?)?)?;
//! let table = unwind::table::compile(&elf)?;
//! # let _ = table;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arch;
mod binary;
mod by_rules;
mod cfi;
mod copy;
mod steps;
pub mod table;
mod truncated;
mod walk;
mod walked;

use std::sync::Arc;

use symbols::elf::ElfFile;

pub use binary::{Content, Modules};
pub use truncated::TruncationReason;
pub use walk::{FRAME_LIMIT, FramePlace, Mapped, RawFrame, Walk, Walker};
pub use walked::{End, Walked};

use base::event::FileId;

/// Opens mapped files; implemented outside the pure layers.
pub trait Binaries {
    /// Opens the ELF file that was mapped. `path` is as the process saw it, or `[vdso]`; `build_id`
    /// is empty if the mapping did not include it.
    ///
    /// # Errors
    /// A message for users: why the file can't be read, or that it is a different file now.
    fn elf(&self, file: FileId, path: &str, build_id: &[u8]) -> Result<Arc<ElfFile>, String>;
}

/// Opens no files: for logs that are complete.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBinaries;

impl Binaries for NoBinaries {
    fn elf(&self, _: FileId, _: &str, _: &[u8]) -> Result<Arc<ElfFile>, String> {
        Err("not opened: the log is read without the binaries".to_owned())
    }
}
