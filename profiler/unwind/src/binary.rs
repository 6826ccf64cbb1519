//! The modules of all processes: opened once each, with the data that unwinding needs.

use std::ops::Range;
use std::sync::Arc;

use framehop::{Module as HopModule, ModuleSectionInfo, Unwinder as _};
use profiler_common::call::is_call;
use profiler_common::unwind::{Arch, Row};
use rustc_hash::FxHashMap;
use symbols::elf::{ElfBytes, ElfFile, Section};

use super::Binaries;
use super::arch::{self, Processor};
use super::cfi::Cfi;
use super::table::last_calls;
use super::table::stubs::{self, Stubs};
use base::addr::{FileOffset, Svma};
use base::event;
use task::space::{FileKey, MappedFile, MappedFiles};

/// Bytes after the entry point that count as the entry code: `_start` is shorter.
const ENTRY_CODE: u64 = 64;

/// Number of an opened [`Binary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BinaryId(pub u32);

impl BinaryId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a mapped file for unwinding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// An ELF file.
    Binary(BinaryId),
    /// Not an ELF file: code generated at run time.
    MadeAtRunTime,
    /// A file that can't be read.
    Unreadable,
}

/// A file that was mapped executable, with its properties.
pub struct MappedBinary {
    /// The kind of file.
    pub content: Content,
    /// Build id of the file, or of the mapping or the log.
    pub build_id: Vec<u8>,
    /// Address of the first loadable segment.
    pub base_svma: Svma,
    /// Why the file can't be read.
    pub problem: Option<String>,
    /// Loadable segments: offset, address, bytes, executable.
    segments: Vec<Segment>,
    /// The largest size of a page.
    page: u64,
}

/// A loadable segment.
#[derive(Debug, Clone, Copy)]
struct Segment {
    offset: u64,
    svma: u64,
    size: u64,
    executable: bool,
}

/// An ELF file with its unwind tables.
pub struct Binary {
    /// Its unwind tables.
    pub cfi: Option<Cfi>,
    /// Its code, for checking call instructions.
    text: Option<Section>,
    processor: &'static Processor,
    /// Code without unwind information whose rules are known.
    stubs: Vec<Stubs>,
    /// Its code is for another processor than the unwinder's: 32-bit, or another architecture.
    pub is_foreign: bool,
    entry: Range<u64>,
    /// Calls to functions whose callers have no caller.
    last_calls: Vec<Range<u64>>,
    base_svma: u64,
    /// Its address in framehop's address space: the start of a 4 GiB range that no other module
    /// uses.
    place: u64,
}

impl Binary {
    /// Whether the address is in the code that the kernel or the loader jumps to first.
    pub fn is_entry_code(&self, svma: Svma) -> bool {
        self.entry.contains(&svma.0)
    }

    /// Whether the address is in a call from the outermost function of a stack.
    pub fn is_last_call(&self, svma: Svma) -> bool {
        self.last_calls.iter().any(|call| call.contains(&svma.0))
    }

    /// The address in framehop's address space.
    pub fn hop_address(&self, svma: Svma) -> Option<u64> {
        let relative = svma.0.checked_sub(self.base_svma)?;
        u32::try_from(relative)
            .ok()
            .map(|relative| self.place + u64::from(relative))
    }

    /// The rules of code without unwind information.
    pub fn stub(&self, svma: Svma) -> Option<Row> {
        self.stubs.iter().find_map(|stubs| stubs.row(svma.0))
    }

    /// Whether a call instruction ends at this address. `None`: the code is unknown.
    pub fn follows_call(&self, svma: Svma) -> Option<bool> {
        let code = self.code(Svma(svma.0.checked_sub(8)?))?;
        Some(is_call(self.processor.arch, code))
    }

    /// Eight bytes of code.
    pub fn code(&self, svma: Svma) -> Option<u64> {
        let text = self.text.as_ref()?;
        let at = usize::try_from(svma.0.checked_sub(text.svma.start)?).ok()?;
        text.bytes
            .get(at..)?
            .first_chunk::<8>()
            .copied()
            .map(u64::from_le_bytes)
    }
}

/// All files that were mapped executable.
pub struct Modules<'b> {
    binaries: &'b dyn Binaries,
    /// By [`FileKey`].
    known: Vec<Option<MappedBinary>>,
    opened: Vec<Binary>,
    /// Modules from the log, for files that can't be opened.
    noted: FxHashMap<String, Vec<event::Module>>,
    pub(super) hop: arch::Unwinder,
    /// Of the recording.
    pub(super) processor: &'static Processor,
}

impl<'b> Modules<'b> {
    /// Creates an empty set for a recording of this processor.
    pub fn new(binaries: &'b dyn Binaries, arch: Arch) -> Self {
        Self {
            binaries,
            known: Vec::new(),
            opened: Vec::new(),
            noted: FxHashMap::default(),
            hop: arch::Unwinder::new(),
            processor: arch::of(arch),
        }
    }

    /// Adds information about a file from the log.
    pub fn note(&mut self, module: event::Module) {
        self.noted.entry(module.path.clone()).or_default().push(module);
    }

    /// The kind of a file; opens it on the first call.
    pub fn known(&mut self, key: FileKey, files: &MappedFiles) -> &MappedBinary {
        let (index, page) = (key.index(), self.processor.page);
        if self.known.len() <= index {
            self.known.resize_with(index + 1, || None);
        }
        if self.known[index].is_none() {
            self.known[index] = Some(self.open(files.get(key)));
        }
        self.known[index].get_or_insert_with(|| MappedBinary::nothing(page))
    }

    /// The ELF file of an opened module.
    pub fn binary_id(&self, key: FileKey) -> Option<BinaryId> {
        match self.known.get(key.index())?.as_ref()?.content {
            Content::Binary(id) => Some(id),
            Content::MadeAtRunTime | Content::Unreadable => None,
        }
    }

    /// Opens an ELF file.
    pub fn binary(&self, id: BinaryId) -> &Binary {
        &self.opened[id.index()]
    }

    fn open(&mut self, file: &MappedFile) -> MappedBinary {
        let without = |content, problem| MappedBinary {
            content,
            build_id: file.build_id.to_vec(),
            problem,
            ..MappedBinary::nothing(self.processor.page)
        };
        if file.is_anonymous() {
            return without(Content::MadeAtRunTime, None);
        }
        match self.binaries.elf(file.file, &file.path, &file.build_id) {
            Ok(elf) => self.add(&elf),
            // Memory that only looks like a file: compilers map it twice, for writing and for
            // executing.
            Err(_)
                if ["/memfd:", "/dev/", "/SYSV"]
                    .iter()
                    .any(|start| file.path.starts_with(start)) =>
            {
                without(Content::MadeAtRunTime, None)
            }
            Err(problem) => {
                let mut known = without(Content::Unreadable, Some(problem));
                self.fill_from_log(file, &mut known);
                known
            }
        }
    }

    /// The log contains the segments of files that can't be opened here.
    fn fill_from_log(&self, file: &MappedFile, known: &mut MappedBinary) {
        let noted = self.noted.get(&*file.path).into_iter().flatten();
        let Some(module) = noted.rev().find(|module| module.file == file.file || file.is_vdso()) else {
            return;
        };
        known.build_id.clone_from(&module.build_id);
        known.base_svma = Svma(module.segments.first().map_or(0, |segment| segment.svma));
        known.segments = module
            .segments
            .iter()
            .map(|one| Segment {
                offset: one.offset,
                svma: one.svma,
                size: one.file_size,
                executable: true,
            })
            .collect();
    }

    fn add(&mut self, elf: &Arc<ElfFile>) -> MappedBinary {
        let id = BinaryId(u32::try_from(self.opened.len()).unwrap_or(u32::MAX));
        let base_svma = elf.base_svma();
        let segments: Vec<Segment> = elf
            .segments()
            .iter()
            .map(|segment| Segment {
                offset: segment.file_offset,
                svma: segment.svma,
                size: segment.file_size,
                executable: segment.executable,
            })
            .collect();
        let entry = elf.entry();
        let native = elf.arch() == self.processor.elf;
        // The address keeps its lowest bits, which the rule of the procedure linkage table depends
        // on.
        let binary = Binary {
            cfi: native.then(|| Cfi::of(elf, self.processor)).flatten(),
            processor: self.processor,
            stubs: if native {
                stubs::find(elf, self.processor.arch)
            } else {
                Vec::new()
            },
            text: elf.section(".text").filter(|_| native),
            entry: if entry == 0 {
                0..0
            } else {
                entry..entry.saturating_add(ENTRY_CODE)
            },
            last_calls: last_calls::find(elf),
            is_foreign: !native,
            base_svma,
            place: ((u64::from(id.0) + 1) << 33) + base_svma % self.processor.page,
        };
        if let Some(cfi) = &binary.cfi {
            let sections = Sections {
                elf,
                base_svma,
                with_header: cfi.has_header(),
            };
            let place = binary.place;
            self.hop
                .add_module(HopModule::new(String::new(), place..place + (1 << 32), place, sections));
        }
        self.opened.push(binary);
        let problem =
            (!native).then(|| "32-bit code, or for another kind of processor: its stacks are not unwound".to_owned());
        MappedBinary {
            content: Content::Binary(id),
            build_id: elf.build_id().to_vec(),
            base_svma: Svma(base_svma),
            problem,
            segments,
            page: self.processor.page,
        }
    }
}

/// Passes the sections that [`Cfi`] reads to framehop.
struct Sections<'e> {
    elf: &'e ElfFile,
    base_svma: u64,
    with_header: bool,
}

impl ModuleSectionInfo<ElfBytes> for Sections<'_> {
    fn base_svma(&self) -> u64 {
        self.base_svma
    }

    fn section_svma_range(&mut self, name: &[u8]) -> Option<Range<u64>> {
        self.elf.section_svma(std::str::from_utf8(name).ok()?)
    }

    fn section_data(&mut self, name: &[u8]) -> Option<ElfBytes> {
        let wanted = name == b".eh_frame" || (name == b".eh_frame_hdr" && self.with_header);
        let section = if wanted {
            self.elf.section(std::str::from_utf8(name).ok()?)
        } else {
            None
        };
        section.map(|section| section.bytes)
    }
}

impl MappedBinary {
    fn nothing(page: u64) -> Self {
        Self {
            content: Content::Unreadable,
            build_id: Vec::new(),
            base_svma: Svma(0),
            problem: None,
            segments: Vec::new(),
            page,
        }
    }

    /// The ELF address of a byte of the file. Executable segments have precedence: the edges of two
    /// segments can be on the same page.
    pub fn svma(&self, offset: FileOffset) -> Option<Svma> {
        let inside = |segment: &&Segment, slack: u64| {
            let start = segment.offset - segment.offset % slack;
            let end = segment
                .offset
                .saturating_add(segment.size)
                .checked_next_multiple_of(slack);
            start <= offset.0 && end.is_none_or(|end| offset.0 < end)
        };
        let executable = || self.segments.iter().filter(|segment| segment.executable);
        let found = executable()
            .find(|segment| inside(segment, 1))
            .or_else(|| self.segments.iter().find(|segment| inside(segment, 1)))
            .or_else(|| executable().find(|segment| inside(segment, self.page)))?;
        Some(Svma(found.svma.wrapping_add(offset.0.wrapping_sub(found.offset))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_addresses_through_segments() {
        let segment = |offset, svma, size, executable| Segment {
            offset,
            svma,
            size,
            executable,
        };
        let known = MappedBinary {
            content: Content::Unreadable,
            build_id: Vec::new(),
            base_svma: Svma(0),
            problem: None,
            segments: vec![segment(0, 0, 0x1800, false), segment(0x1800, 0x2800, 0x100, true)],
            page: 4096,
        };
        assert_eq!(known.svma(FileOffset(0x17ff)), Some(Svma(0x17ff)));
        assert_eq!(known.svma(FileOffset(0x1800)), Some(Svma(0x2800)));
        // The rest of the page after the segment.
        assert_eq!(known.svma(FileOffset(0x1a00)), Some(Svma(0x2a00)));
        assert_eq!(known.svma(FileOffset(0x2000)), None);
    }
}
