//! Split DWARF of version 5, which samply-symbols 0.24 can't read: its version of addr2line looks
//! for the names of source files in the wrong one of the two files.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{Context, Frame, LookupContinuation as _, LookupResult, SplitDwarfLoad};
use gimli::{Dwarf, EndianArcSlice, Reader as _, RunTimeEndian, SectionId};
use object::Object as _;

use super::SourceFrame;
use crate::demangle::demangle;
use crate::elf::ElfFile;
use crate::vetted;

/// Maximum bytes of DWARF kept for one program with its other files: of those, only the ones with
/// requested code are read.
const MAX_BYTES: usize = 1 << 30;
/// Maximum number of files kept open for one program: each is a mapping, of which the kernel allows
/// four times as many.
const MAX_FILES: usize = 1 << 14;

type Bytes = EndianArcSlice<RunTimeEndian>;

/// The DWARF that is in the program, and the files with the rest.
pub(super) struct Split {
    context: Context<Bytes>,
    /// The program's path when it ran.
    path: PathBuf,
    /// All files that were read.
    files: RefCell<Vec<ElfFile>>,
    /// Remaining bytes of the limit.
    room: Cell<usize>,
}

impl Split {
    /// `None`: the DWARF of `elf` is not split, or can't be read.
    pub(super) fn of(elf: &ElfFile, path: &Path) -> Option<Self> {
        // Version 4 has neither.
        if !elf.has_section(".debug_addr")
            || !(elf.has_section(".debug_rnglists") || elf.has_section(".debug_line_str"))
        {
            return None;
        }
        let room = Cell::new(MAX_BYTES);
        Some(Self {
            context: Context::from_dwarf(load(elf, |id| Some(id.name()), &room)?).ok()?,
            path: path.to_owned(),
            files: RefCell::new(vec![elf.clone()]),
            room,
        })
    }

    /// Whether a file was truncated while it was read.
    pub(super) fn was_cut(&self) -> bool {
        self.files.borrow().iter().any(ElfFile::was_cut)
    }

    /// The functions at `svma`, innermost first; unnamed ones have no name.
    pub(super) fn lookup(&self, svma: u64, limit: usize) -> Vec<SourceFrame> {
        let mut result = self.context.find_frames(svma);
        let frames = loop {
            match result {
                LookupResult::Load { load, continuation } => result = continuation.resume(self.other(&load)),
                LookupResult::Output(frames) => break frames,
            }
        };
        let mut found = Vec::new();
        if let Ok(mut frames) = frames {
            while let (true, Ok(Some(frame))) = (found.len() < limit, frames.next()) {
                found.push(source_frame(&frame));
            }
        }
        found
    }

    /// The file of a unit, if it still contains that unit.
    fn other(&self, load_of: &SplitDwarfLoad<Bytes>) -> Option<Arc<Dwarf<Bytes>>> {
        let text = |text: &Option<Bytes>| text.as_ref()?.to_string().ok().map(std::borrow::Cow::into_owned);
        let folder = self.path.parent()?.join(text(&load_of.comp_dir).unwrap_or_default());
        let file = vetted::open_stored(&folder.join(text(&load_of.path)?)).ok()?;
        let elf = ElfFile::open_debug(&file).ok()?;
        let mut dwarf = load(&elf, SectionId::dwo_name, &self.room)?;
        dwarf.make_dwo(&load_of.parent);
        let header = dwarf.units().next().ok()??;
        let is_its = dwarf.unit(header).ok()?.dwo_id == Some(load_of.dwo_id);
        let mut files = self.files.borrow_mut();
        if is_its && files.len() < MAX_FILES {
            files.push(elf);
            return Some(Arc::new(dwarf));
        }
        None
    }
}

/// The DWARF in a file, unless it is too large.
fn load(
    elf: &ElfFile,
    name_of: impl Fn(SectionId) -> Option<&'static str>,
    room: &Cell<usize>,
) -> Option<Dwarf<Bytes>> {
    let endian = if elf.object().ok()?.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    let dwarf = Dwarf::load(|id| {
        let section = name_of(id).and_then(|name| elf.section(name));
        let bytes = section.as_ref().map_or(&[][..], |section| &*section.bytes);
        room.set(room.get().checked_sub(bytes.len()).ok_or(())?);
        Ok::<_, ()>(Bytes::new(bytes.into(), endian))
    });
    dwarf.ok()
}

fn source_frame(frame: &Frame<'_, Bytes>) -> SourceFrame {
    let function = frame.function.as_ref().and_then(|function| function.raw_name().ok());
    let location = frame.location.as_ref();
    SourceFrame {
        function: function.map_or_else(String::new, |name| demangle(&name)),
        file: location.and_then(|location| location.file).map(str::to_owned),
        line: location.and_then(|location| location.line).filter(|line| *line != 0),
    }
}
