//! From registers and a copy of the stack to a list of addresses, with `framehop`.
//!
//! One unwinder serves every process: each distinct file is added to it once, at a synthetic base address of its own, and an
//! address is translated (running process → file → synthetic) before it is looked up. So ten processes that map the same
//! library share its tables and the cache of rules, and fork, exec and mmap cost the unwinder nothing.

mod walk;

use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use symbols::elf::{ElfBytes, ElfFile};

use crate::addr::{Avma, Svma};
use crate::event::FileId;

/// Opens the files behind mappings; implemented by the shell.
pub trait Binaries {
    /// The file's ELF image.
    ///
    /// # Errors
    /// In words, why it can't be read.
    fn elf(&self, file: FileId, path: &str, build_id: &[u8]) -> Result<Arc<ElfFile>, String>;
}

/// A file that the walker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodeId(u32);

/// Where an executable address lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The file; `None`: memory without a readable file (JIT code, a deleted library that could not be opened).
    pub code: Option<CodeId>,
    /// The address in the file's own terms; 0 without a file.
    pub svma: Svma,
}

/// The executable mappings of a process at one moment.
pub trait AddressSpace {
    /// Where `avma` lies; `None`: no executable mapping covers it. A file that is met for the first time is added to `walker`.
    fn place(&mut self, avma: Avma, walker: &mut Walker) -> Option<Place>;
}

/// A frame as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawFrame {
    /// The instruction pointer, or the return address.
    pub avma: Avma,
    /// It is a return address: the call is the instruction before it.
    pub is_return_address: bool,
}

/// What the walker keeps of a file.
#[derive(Debug, Clone, Copy)]
struct Code {
    base_svma: u64,
    size: u64,
    entry: u64,
    has_unwind_info: bool,
}

/// The synthetic address space gives each file this many bytes: framehop's relative addresses have 32 bits.
const SLOT: u64 = 1 << 32;
/// Synthetic addresses begin above every address of user space.
const FIRST_SLOT: u64 = 1 << 56;

/// Unwinds user stacks.
pub struct Walker {
    unwinder: UnwinderX86_64<ElfBytes>,
    cache: CacheX86_64,
    code: Vec<Code>,
}

impl Default for Walker {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Walker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walker")
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}

impl Walker {
    /// A walker that knows no file.
    pub fn new() -> Self {
        Self {
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            code: Vec::new(),
        }
    }

    /// Makes a file known; once for each distinct file.
    pub fn add_code(&mut self, elf: &ElfFile) -> CodeId {
        let base_svma = elf.base_svma();
        let end = elf
            .segments()
            .iter()
            .map(|segment| segment.svma.saturating_add(segment.memory_size))
            .max();
        let size = end.unwrap_or(base_svma).saturating_sub(base_svma).min(SLOT);
        let number = u32::try_from(self.code.len()).unwrap_or(u32::MAX);
        let sections = sections(elf, base_svma);
        let has_unwind_info = sections.eh_frame.is_some() || sections.debug_frame.is_some();
        self.code.push(Code {
            base_svma,
            size,
            entry: elf.entry(),
            has_unwind_info,
        });
        if has_unwind_info && size > 0 {
            let base = slot(CodeId(number));
            self.unwinder
                .add_module(Module::new(String::new(), base..base + size, base, sections));
        }
        CodeId(number)
    }

    fn code(&self, id: CodeId) -> Option<Code> {
        self.code.get(id.0 as usize).copied()
    }

    /// The synthetic address of a place; its own address where no file is known.
    fn synthetic(&self, place: Option<Place>, avma: u64) -> u64 {
        let Some(Place { code: Some(id), svma }) = place else {
            return avma;
        };
        match self
            .code(id)
            .and_then(|code| svma.0.checked_sub(code.base_svma).filter(|&rel| rel < code.size))
        {
            Some(relative) => slot(id) + relative,
            None => avma,
        }
    }
}

fn slot(id: CodeId) -> u64 {
    FIRST_SLOT + u64::from(id.0) * SLOT
}

fn sections(elf: &ElfFile, base_svma: u64) -> ExplicitModuleSectionInfo<ElfBytes> {
    let mut info = ExplicitModuleSectionInfo {
        base_svma,
        text_svma: None,
        text: None,
        stubs_svma: None,
        stub_helper_svma: None,
        got_svma: None,
        unwind_info: None,
        eh_frame_svma: None,
        eh_frame: None,
        eh_frame_hdr_svma: None,
        eh_frame_hdr: None,
        debug_frame: None,
        text_segment_svma: None,
        text_segment: None,
    };
    let range_of = |name: &str| elf.section(name).map(|section| section.svma);
    info.text_svma = range_of(".text");
    info.got_svma = range_of(".got");
    if let Some(eh_frame) = elf.section(".eh_frame").filter(|section| !section.bytes.is_empty()) {
        info.eh_frame_svma = Some(eh_frame.svma);
        info.eh_frame = Some(eh_frame.bytes);
        if let Some(header) = elf.section(".eh_frame_hdr") {
            info.eh_frame_hdr_svma = Some(header.svma);
            info.eh_frame_hdr = Some(header.bytes);
        }
    } else {
        info.debug_frame = elf.section(".debug_frame").map(|section| section.bytes);
    }
    info
}

#[cfg(test)]
mod tests;
