//! Compiles the unwind information of an ELF file (`.eh_frame`, `.debug_frame`) to rows that the kernel side can follow.
//!
//! Parsing and evaluating are gimli's; here is what a row can hold (`rules`), how rows are laid out (`rows`), and what
//! belongs to no function's information (`functions`: gaps, entry code; `stubs`).

mod entries;
mod evaluate;
mod functions;
mod rows;
mod rules;
mod stubs;
#[cfg(test)]
mod tests;

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, LittleEndian, Vendor};
use profiler_common::unwind::{Arch, Cfa, Row, TABLE_PAGE};
use symbols::elf::{self, ElfFile, Section};

pub use crate::table::{MAX_ROWS, MAX_TABLE_PAGES, Stats, Table};
use entries::Entries;
use evaluate::Compiler;
use functions::{Function, Source};

type Slice<'b> = EndianSlice<'b, LittleEndian>;

/// Most functions of a file: ten times those of libxul.so.
pub const MAX_FUNCTIONS: usize = 1 << 22;
/// Most bytes of instructions that are followed, a common entry counted with each of its functions: ten times those of
/// libxul.so.
const MAX_WORK: usize = 256 << 20;

/// Why there is no table. The caller knows the file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Neither section, or nothing in them.
    #[error("it has no unwind information (.eh_frame, .debug_frame); its frame pointers are followed, if it keeps any")]
    Nothing,
    /// Neither x86-64 nor arm64.
    #[error("it holds code for another kind of processor (ELF machine {0})")]
    Processor(u16),
    /// More than [`MAX_FUNCTIONS`].
    #[error("it has more than {MAX_FUNCTIONS} functions, which no unwind table holds")]
    TooManyFunctions,
    /// More than [`MAX_ROWS`].
    #[error("its unwind information has more than {MAX_ROWS} rows, which no table holds")]
    TooManyRows,
    /// More than [`MAX_TABLE_PAGES`].
    #[error("its code spans more than {} GiB, which no unwind table does", (MAX_TABLE_PAGES as u64 * TABLE_PAGE) >> 30)]
    TooWide,
    /// More than `MAX_WORK`.
    #[error("its unwind information takes more than {MAX_WORK} bytes of instructions to follow")]
    TooMuchWork,
}

/// Compiles the tables of `elf`.
///
/// # Errors
/// Every [`TableError`]. Damage in single entries is no error: it is counted in [`Stats::damaged`].
pub fn compile(elf: &ElfFile) -> Result<Table, TableError> {
    let arch = match elf.arch() {
        elf::Arch::X86_64 => Arch::X86_64,
        elf::Arch::Aarch64 => Arch::Aarch64,
        elf::Arch::Other(machine) => return Err(TableError::Processor(machine)),
    };
    let sections = Sections::of(elf);
    let mut eh_frame = Entries::new(sections.eh_frame(arch), &sections.bases);
    let mut debug_frame = Entries::new(sections.debug_frame(arch), &sections.bases);
    let mut compiler = Compiler::new(arch);
    let mut functions = functions::find(elf, &mut eh_frame, &mut debug_frame, &mut compiler.stats)?;
    let stubs = stubs::find(elf, arch);
    functions::add_stubs(&stubs, &mut functions);
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
            Source::Stubs => compiler.stubs(stubs.get(function.offset), part)?,
            Source::EntryCode => compiler.rows.push(start, Row::plain(0, Cfa::Outermost))?,
        }
        end = Some(function.end);
    }
    compiler
        .rows
        .push(end.ok_or(TableError::Nothing)?, Row::plain(0, Cfa::None))?;
    if compiler.rows.is_empty() {
        return Err(TableError::Nothing);
    }
    Ok(compiler.finish(elf.build_id()))
}

/// The sections that are read, kept alive.
struct Sections {
    eh_frame: Option<Section>,
    debug_frame: Option<Section>,
    bases: BaseAddresses,
}

impl Sections {
    fn of(elf: &ElfFile) -> Self {
        let start = |name| elf.section(name).map(|section| section.svma.start);
        let eh_frame = elf.section(".eh_frame");
        let mut bases = BaseAddresses::default();
        if let Some(section) = &eh_frame {
            bases = bases.set_eh_frame(section.svma.start);
        }
        if let Some(text) = start(".text") {
            bases = bases.set_text(text);
        }
        if let Some(got) = start(".got") {
            bases = bases.set_got(got);
        }
        Self {
            eh_frame,
            debug_frame: elf.section(".debug_frame"),
            bases,
        }
    }

    fn eh_frame(&self, arch: Arch) -> EhFrame<Slice<'_>> {
        let bytes = self.eh_frame.as_ref().map(|section| &*section.bytes);
        let mut section = EhFrame::new(bytes.unwrap_or_default(), LittleEndian);
        section.set_address_size(8);
        section.set_vendor(vendor(arch));
        section
    }

    fn debug_frame(&self, arch: Arch) -> DebugFrame<Slice<'_>> {
        let bytes = self.debug_frame.as_ref().map(|section| &*section.bytes);
        let mut section = DebugFrame::new(bytes.unwrap_or_default(), LittleEndian);
        section.set_address_size(8);
        section.set_vendor(vendor(arch));
        section
    }
}

fn vendor(arch: Arch) -> Vendor {
    match arch {
        Arch::X86_64 => Vendor::Default,
        Arch::Aarch64 => Vendor::AArch64,
    }
}
