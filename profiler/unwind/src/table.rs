//! Compiles the unwind information of an ELF file (`.eh_frame`, `.debug_frame`) to rows that the
//! eBPF programs can follow.
//!
//! gimli parses and evaluates; this module determines what a row can represent (`rules`), how rows
//! are laid out (`rows`), and the code without unwind information (`functions`: gaps, entry code;
//! `stubs`).

mod code;
mod entries;
mod evaluate;
mod functions;
mod input;
pub mod last_calls;
mod rows;
mod rules;
pub(crate) mod stubs;
#[cfg(test)]
mod tests;

use gimli::{DebugFrame, EhFrame, EndianSlice, LittleEndian, Vendor};
use profiler_common::unwind::{Arch, Cfa, Row, TABLE_PAGE};
use symbols::elf::ElfFile;

pub use base::table::{MAX_ROWS, MAX_TABLE_PAGES, Stats, Table};
use entries::Entries;
use evaluate::Compiler;
use functions::{Function, Source};
pub use input::Input;

type Slice<'b> = EndianSlice<'b, LittleEndian>;

/// Maximum number of functions of a file: ten times those of libxul.so.
pub const MAX_FUNCTIONS: usize = 1 << 22;
/// Maximum bytes of evaluated instructions, with a shared entry counted for each of its functions:
/// ten times those of libxul.so.
const MAX_WORK: usize = 256 << 20;

/// Why there is no table. The caller adds the file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Both sections are missing or empty.
    #[error("it has no unwind information (.eh_frame, .debug_frame); its frame pointers are followed, if it keeps any")]
    Nothing,
    /// The processor is neither x86-64 nor arm64.
    #[error("it holds code for another kind of processor (ELF machine {0})")]
    Processor(u16),
    /// More than [`MAX_FUNCTIONS`] functions.
    #[error("it has more than {MAX_FUNCTIONS} functions, which no unwind table holds")]
    TooManyFunctions,
    /// More than [`MAX_ROWS`] rows.
    #[error("its unwind information has more than {MAX_ROWS} rows, which no table holds")]
    TooManyRows,
    /// More than [`MAX_TABLE_PAGES`] pages.
    #[error("its code spans more than {} GiB, which no unwind table does", (MAX_TABLE_PAGES as u64 * TABLE_PAGE) >> 30)]
    TooWide,
    /// Sections larger than `MAX_SECTIONS`.
    #[error("its unwind information has more than {} MiB", input::MAX_SECTIONS >> 20)]
    TooLarge,
    /// More work than `MAX_WORK`.
    #[error("its unwind information takes more than {MAX_WORK} bytes of instructions to follow")]
    TooMuchWork,
}

/// Compiles the tables of `elf`.
///
/// # Errors
/// Every [`TableError`]. Damaged entries are not an error: they are counted in [`Stats::damaged`].
pub fn compile(elf: &ElfFile) -> Result<Table, TableError> {
    Input::of(elf)?.compile()
}

impl Input {
    /// Compiles the table of this input.
    ///
    /// # Errors
    /// See [`compile`].
    pub fn compile(&self) -> Result<Table, TableError> {
        let bases = self.bases();
        let mut eh_frame = Entries::new(self.eh_frame(), &bases);
        let mut debug_frame = Entries::new(self.debug_frame(), &bases);
        let mut compiler = Compiler::new(self.arch);
        let mut functions = functions::find(self, &mut eh_frame, &mut debug_frame, &mut compiler.stats)?;
        functions::add_stubs(&self.stubs, &mut functions);
        functions::add_last_calls(&self.last_calls, &mut functions);
        let mut end = None;
        for function in &functions {
            let start = function.start.max(end.unwrap_or(0));
            compiler.stats.overlapping += u32::from(function.start < start);
            if start >= function.end {
                continue;
            }
            if let Some(end) = end
                && !functions::is_padding(end, start)
            {
                compiler.rows.push(end, Row::plain(0, Cfa::None))?;
            }
            let part = Function { start, ..*function };
            match function.source {
                Source::EhFrame => compiler.function(&mut eh_frame, part)?,
                Source::DebugFrame => compiler.function(&mut debug_frame, part)?,
                Source::Stubs => compiler.stubs(self.stubs.get(function.offset), part)?,
                Source::EntryCode | Source::LastCall => compiler.rows.push(start, Row::plain(0, Cfa::Outermost))?,
            }
            end = Some(function.end);
        }
        compiler
            .rows
            .push(end.ok_or(TableError::Nothing)?, Row::plain(0, Cfa::None))?;
        if compiler.rows.is_empty() {
            return Err(TableError::Nothing);
        }
        Ok(compiler.finish(self.digest))
    }

    fn eh_frame(&self) -> EhFrame<Slice<'_>> {
        let mut section = EhFrame::new(&self.eh_frame, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(vendor(self.arch));
        section
    }

    fn debug_frame(&self) -> DebugFrame<Slice<'_>> {
        let mut section = DebugFrame::new(&self.debug_frame, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(vendor(self.arch));
        section
    }
}

fn vendor(arch: Arch) -> Vendor {
    match arch {
        Arch::X86_64 => Vendor::Default,
        Arch::Aarch64 => Vendor::AArch64,
    }
}
