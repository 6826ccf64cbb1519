//! Inline chains with files and lines, from DWARF by way of wholesym.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _};
use tokio::runtime::Runtime;
use wholesym::{FrameDebugInfo, FramesLookupResult, LookupAddress, SymbolManager, SymbolMap};

use super::SourceFrame;
use super::locate::Opened;
use crate::elf::ElfFile;

/// Deeper inlining is cut off, from the outside.
const MAX_INLINE_DEPTH: usize = 512;
/// Files whose compressed sections claim to be larger than this are not read.
const MAX_DECOMPRESSED_SIZE: u64 = 8 << 30;
/// `sh_type` of a section without bytes.
const SHT_NOBITS: u32 = 8;

/// Whether a function has this name, perhaps among others.
type IsSymbol<'a> = &'a dyn Fn(&str) -> bool;

/// The DWARF of one module.
pub(super) struct Frames<'runtime> {
    runtime: &'runtime Runtime,
    map: SymbolMap,
    /// After a panic inside wholesym.
    broken: Cell<bool>,
    _copy: Option<File>,
}

impl<'runtime> Frames<'runtime> {
    /// Loads the DWARF of `opened`, or `None` if it has none that can be read. Errors: a copy has to be made, and `scratch` has no room for it.
    pub(super) fn load(
        runtime: &'runtime Runtime,
        manager: &SymbolManager,
        opened: &Opened,
        scratch: &Path,
    ) -> io::Result<Option<Self>> {
        let elf = &opened.elf;
        if !elf.has_section(".debug_info") || elf.decompressed_size() > MAX_DECOMPRESSED_SIZE {
            return Ok(None);
        }
        let (path, copy) = match without_misleading_sections(elf, scratch)? {
            Some((path, file)) => (path, Some(file)),
            None => (opened.path.clone(), None),
        };
        let load = || runtime.block_on(manager.load_symbol_map_for_binary_at_path(&path, None));
        let map = catch_unwind(AssertUnwindSafe(load)).ok().and_then(Result::ok);
        Ok(map.map(|map| Self {
            runtime,
            map,
            broken: Cell::new(false),
            _copy: copy,
        }))
    }

    /// The functions at `svma`, innermost first; empty if unknown. `symbol` is the name of the outermost one, and `is_symbol`
    /// tells all of its names.
    pub(super) fn lookup(&self, svma: u64, symbol: &str, is_symbol: IsSymbol<'_>) -> Vec<SourceFrame> {
        if self.broken.get() {
            return Vec::new();
        }
        // Damaged DWARF can make wholesym panic. It costs the lines then, not the names.
        catch_unwind(AssertUnwindSafe(|| self.lookup_unguarded(svma, symbol, is_symbol))).unwrap_or_else(|_| {
            self.broken.set(true);
            Vec::new()
        })
    }

    fn lookup_unguarded(&self, svma: u64, symbol: &str, is_symbol: IsSymbol<'_>) -> Vec<SourceFrame> {
        let Some(info) = self.map.lookup_sync(LookupAddress::Svma(svma)) else {
            return Vec::new();
        };
        let frames = match info.frames {
            Some(FramesLookupResult::Available(frames)) => frames,
            // The unit is in another file (`-gsplit-dwarf`), which wholesym keeps from now on.
            Some(FramesLookupResult::External(reference)) => self
                .runtime
                .block_on(self.map.lookup_external(&reference))
                .unwrap_or_default(),
            None => Vec::new(),
        };
        let outermost = frames.len().saturating_sub(1);
        let convert = |(depth, frame)| {
            let outermost = (depth == outermost).then_some((symbol, is_symbol));
            source_frame(frame, outermost)
        };
        frames
            .into_iter()
            .enumerate()
            .map(convert)
            .take(MAX_INLINE_DEPTH)
            .collect()
    }
}

/// `outermost`: the function's symbol, and a test for all of its names.
fn source_frame(frame: FrameDebugInfo, outermost: Option<(&str, IsSymbol<'_>)>) -> SourceFrame {
    let function = match (frame.function.filter(|name| !name.is_empty()), outermost) {
        (Some(name), Some((_, is_symbol))) => with_its_underscore(name, is_symbol),
        (Some(name), None) => name,
        (None, Some((symbol, _))) => symbol.to_owned(),
        (None, None) => "[inlined function without a name]".to_owned(),
    };
    SourceFrame {
        function,
        file: frame
            .file_path
            .map(wholesym::SourceFilePath::into_raw_path)
            .filter(|path| !path.is_empty()),
        line: frame.line_number.filter(|line| *line != 0),
    }
}

/// wholesym takes one underscore from the front of plain C names. Nothing tells where an inlined function's had one: `get` may well
/// be inlined, and call `_get`.
fn with_its_underscore(name: String, is_symbol: IsSymbol<'_>) -> String {
    let whole = format!("_{name}");
    if !is_symbol(&name) && is_symbol(&whole) {
        whole
    } else {
        name
    }
}

/// A copy of `elf` in a file without a name in `scratch`, without the sections that lead wholesym 0.8 astray, or `None` if it has none of them:
/// - it forgets to subtract the base address from `.eh_frame` addresses, so that in a large executable with fixed
///   addresses functions begin and end in the middle of others;
/// - it reads `.gnu_debugdata`, in which there are no lines, instead of the DWARF beside it.
fn without_misleading_sections(elf: &ElfFile, scratch: &Path) -> io::Result<Option<(PathBuf, File)>> {
    let hide_eh_frame = relative_and_stated_addresses_overlap(elf);
    let Ok(object) = elf.object() else { return Ok(None) };
    let misleading: Vec<usize> = object
        .sections()
        .filter(|section| match section.name_bytes() {
            Ok(b".eh_frame") => hide_eh_frame && section.file_range().is_some(),
            Ok(b".gnu_debugdata") => true,
            _ => false,
        })
        .map(|section| section.index().0)
        .collect();
    let Some(table) = section_table(elf).filter(|_| !misleading.is_empty()) else {
        return Ok(None);
    };

    let mut copy = tempfile::tempfile_in(scratch)?;
    let mut rest = elf.bytes();
    let mut written = 0;
    for index in misleading {
        let field = table
            .start
            .saturating_add(index.saturating_mul(table.entry_size))
            .saturating_add(4);
        let Some((before, after)) = rest.split_at_checked(field.saturating_sub(written)) else {
            break;
        };
        let no_bits = if object.is_little_endian() {
            SHT_NOBITS.to_le_bytes()
        } else {
            SHT_NOBITS.to_be_bytes()
        };
        copy.write_all(before)?;
        copy.write_all(&no_bits)?;
        rest = after.get(4..).unwrap_or_default();
        written = field.saturating_add(4);
    }
    copy.write_all(rest)?;
    let path = Path::new("/proc/self/fd").join(copy.as_raw_fd().to_string());
    Ok(Some((path, copy)))
}

/// Whether the file reaches so far above its base that an address counted from there can be another's stated one.
fn relative_and_stated_addresses_overlap(elf: &ElfFile) -> bool {
    let end = elf
        .segments()
        .iter()
        .map(|segment| segment.svma.saturating_add(segment.memory_size))
        .max();
    let base = elf.base_svma();
    base != 0 && end.is_some_and(|end| end.saturating_sub(base) > base)
}

/// Where the section headers are in the file.
struct SectionTable {
    start: usize,
    entry_size: usize,
}

fn section_table(elf: &ElfFile) -> Option<SectionTable> {
    fn of<E: object::read::elf::FileHeader<Endian = object::Endianness>>(bytes: &[u8]) -> Option<SectionTable> {
        let header = E::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let start = usize::try_from(header.e_shoff(endian).into()).ok()?;
        Some(SectionTable {
            start,
            entry_size: usize::from(header.e_shentsize(endian)),
        })
    }
    match elf.object().ok()? {
        object::File::Elf64(_) => of::<object::elf::FileHeader64<object::Endianness>>(elf.bytes()),
        object::File::Elf32(_) => of::<object::elf::FileHeader32<object::Endianness>>(elf.bytes()),
        _ => None,
    }
}
