//! Copies the parts of an ELF file that unwind tables and names are built from, so the file itself need not stay open. The copy has the same
//! offsets, and holes for everything else. A section that was left out has a private flag in the copy: its place is known, its bytes are not.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader};
use object::{Endianness, ObjectSection as _, SectionFlags, elf};

use super::MAX_FILE_SIZE;
use super::bytes::{ElfBytes, Reading};
use crate::patience::Progress;

/// The flags of a section whose bytes were left out: all flags that are reserved for operating systems; no file has more than two of them.
const ABSENT: u32 = 0x0ff0_0000;
/// Bytes to copy at once.
const PIECE: u64 = 1 << 20;
/// The largest supported table of headers, in bytes.
const MAX_TABLE: u64 = 16 << 20;
/// Size of an ELF header of either class.
const HEADER: u64 = 64;
/// Maximum bytes of code to copy.
const MAX_CODE: u64 = 64 << 20;
/// Offset of `sh_flags` in a section header.
const FLAGS_AT: u64 = 8;
/// Sections to copy by name, in addition to those of certain types.
const NAMED: [&[u8]; 7] = [
    b".eh_frame",
    b".eh_frame_hdr",
    b".debug_frame",
    b".gnu_debugdata",
    b".gnu_debuglink",
    b".gnu_debugaltlink",
    b".interp",
];

/// Sections with the functions of Go programs, which are copied if the file has no symbols.
const GO: [&[u8]; 4] = [b".gopclntab", b".data.rel.ro.gopclntab", b".go.module", b".go.func"];

/// How much of a file to copy.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum bytes in total.
    pub bytes: u64,
    /// Maximum bytes of debug information, which is copied as a whole or not at all.
    pub debug: u64,
    /// Whether to copy code, too: stacks are unwound a little better with it.
    pub code: bool,
}

/// The size of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// Bytes in the copy, without holes.
    pub bytes: u64,
    /// Bytes of debug information that were left out.
    pub debug_left_out: u64,
    /// Whether sections were left out.
    pub is_partial: bool,
}

/// Copies parts of `from` into `to`, which is empty.
///
/// # Errors
/// The file can't be read or is truncated, the copy can't be written, or its symbols are larger than `limits` allow.
pub fn excerpt(from: &File, to: &File, limits: Limits, progress: &Progress) -> io::Result<Excerpt> {
    let size = from.metadata()?.len();
    if size > MAX_FILE_SIZE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // A program with cold files must find no more pages in memory than were needed here.
    let _ = posix_fadvise(from, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM);
    to.set_len(size)?;
    let mut copy = Copy {
        from,
        to,
        size,
        left: limits.bytes,
        progress,
    };
    copy.part(0..HEADER.min(size))?;
    let mut found = Excerpt::default();
    if size >= HEADER {
        let start = ElfBytes::map(to, Reading::Around)?;
        let sections = match start.get(..5) {
            Some([0x7f, b'E', b'L', b'F', 1]) => sections::<elf::FileHeader32<Endianness>>(&mut copy, &start)?,
            Some([0x7f, b'E', b'L', b'F', 2]) => sections::<elf::FileHeader64<Endianness>>(&mut copy, &start)?,
            _ => None,
        };
        if let Some(sections) = sections {
            found = copy.chosen(&sections, limits)?;
        }
    }
    found.bytes = limits.bytes - copy.left;
    Ok(found)
}

struct Copy<'f> {
    from: &'f File,
    to: &'f File,
    size: u64,
    /// Bytes that may still be copied.
    left: u64,
    progress: &'f Progress,
}

impl Copy<'_> {
    /// Copies a range, as far as the file contains it: readers of the copy detect missing parts.
    fn part(&mut self, range: Range<u64>) -> io::Result<()> {
        let (mut at, end) = (range.start.min(self.size), range.end.min(self.size));
        self.left = (self.left.checked_sub(end.saturating_sub(at))).ok_or(io::ErrorKind::FileTooLarge)?;
        let mut piece = vec![0; usize::try_from(PIECE.min(end.saturating_sub(at))).unwrap_or(0)];
        while at < end {
            let len = usize::try_from(PIECE.min(end - at)).unwrap_or(0);
            let bytes = piece.get_mut(..len).unwrap_or_default();
            self.from.read_exact_at(bytes, at)?;
            // Keep holes as holes.
            if bytes.iter().any(|byte| *byte != 0) {
                self.to.write_all_at(bytes, at)?;
            }
            at += len as u64;
            self.progress.is_made();
        }
        Ok(())
    }

    fn table(&mut self, start: u64, count: u64, size: u64) -> io::Result<()> {
        let bytes = count.checked_mul(size).filter(|bytes| *bytes <= MAX_TABLE);
        let end = bytes.and_then(|bytes| start.checked_add(bytes));
        self.part(start..end.ok_or(io::ErrorKind::FileTooLarge)?)
    }

    fn chosen(&mut self, sections: &Sections, limits: Limits) -> io::Result<Excerpt> {
        let size_of = |kind: Kind| {
            let sizes = sections.all.iter().filter(|section| section.kind == kind);
            sizes.fold(0_u64, |sum, section| sum.saturating_add(section.size()))
        };
        let (debug, code, go) = (size_of(Kind::Debug), size_of(Kind::Code), size_of(Kind::Go));
        let with_debug = debug <= limits.debug;
        let with_code = (limits.code || sections.is_static) && code <= MAX_CODE;
        let with_go = !sections.has_symbols && go <= limits.bytes / 2;
        let mut is_partial = false;
        for section in &sections.all {
            let is_wanted = match section.kind {
                Kind::Needed => true,
                Kind::Debug => with_debug,
                Kind::Code => with_code,
                Kind::Go => with_go,
                Kind::Other => false,
            };
            if is_wanted {
                self.part(section.range.clone())?;
            } else if section.size() > 0 {
                is_partial = true;
                self.to.write_all_at(&section.absent, section.flags_at)?;
            }
        }
        Ok(Excerpt {
            bytes: 0,
            debug_left_out: if with_debug { 0 } else { debug },
            is_partial,
        })
    }
}

/// The role of a section in the copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Needed,
    Debug,
    Code,
    Go,
    Other,
}

struct Section {
    /// Offset of the lower half of its flags, and its value with [`ABSENT`].
    flags_at: u64,
    absent: [u8; 4],
    range: Range<u64>,
    kind: Kind,
}

impl Section {
    fn size(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }
}

struct Sections {
    all: Vec<Section>,
    /// Whether there is a symbol table, not only of exported symbols.
    has_symbols: bool,
    /// Whether it is a program without a loader: then the ends of its stacks are found in its code.
    is_static: bool,
}

/// Copies the headers, and returns the sections in them. `data` shows the copy as it grows; `None`: the headers are damaged, or there are no sections.
fn sections<E: FileHeader<Endian = Endianness>>(copy: &mut Copy<'_>, data: &[u8]) -> io::Result<Option<Sections>> {
    let Ok((header, endian)) = E::parse(data).and_then(|header| Ok((header, header.endian()?))) else {
        return Ok(None);
    };
    let (table, entry): (u64, u64) = (header.e_shoff(endian).into(), header.e_shentsize(endian).into());
    if table != 0 {
        copy.table(table, 1, entry)?; // may contain the counts
    }
    let counts = header
        .phnum(endian, data)
        .and_then(|segments| Ok((segments, header.shnum(endian, data)?)));
    let Ok((segments, count)) = counts else { return Ok(None) };
    copy.table(
        header.e_phoff(endian).into(),
        segments.into(),
        header.e_phentsize(endian).into(),
    )?;
    for segment in header.program_headers(endian, data).unwrap_or_default() {
        if matches!(segment.p_type(endian), elf::PT_NOTE | elf::PT_INTERP | elf::PT_DYNAMIC) {
            let (start, size): (u64, u64) = (segment.p_offset(endian).into(), segment.p_filesz(endian).into());
            copy.table(start, 1, size)?;
        }
    }
    if table == 0 {
        return Ok(None);
    }
    copy.table(table, count.into(), entry)?;
    let headers = header.section_headers(endian, data).unwrap_or_default();
    if let Some(names) = header
        .shstrndx(endian, data)
        .ok()
        .and_then(|index| headers.get(index as usize))
    {
        let (start, size) = names.file_range(endian).unwrap_or_default();
        copy.table(start, 1, size)?;
    }
    let Ok(sections) = header.sections(endian, data) else {
        return Ok(None);
    };
    // The lower half of eight bytes.
    let half = if header.is_class_64() && header.is_big_endian() {
        4
    } else {
        0
    };
    let mut all = Vec::with_capacity(headers.len());
    let (mut has_loader, mut has_symbols) = (false, false);
    for (at, section) in (table..)
        .step_by(usize::try_from(entry).unwrap_or(1).max(1))
        .zip(headers)
    {
        let Some((start, size)) = section.file_range(endian) else {
            continue;
        };
        let name = sections.section_name(endian, section).unwrap_or_default();
        has_loader |= name == b".interp";
        has_symbols |= section.sh_type(endian) == elf::SHT_SYMTAB;
        let low = section.sh_flags(endian).0 & u64::from(u32::MAX);
        let flags = u32::try_from(low).unwrap_or(0) | ABSENT;
        all.push(Section {
            flags_at: at + FLAGS_AT + half,
            absent: if header.is_big_endian() {
                flags.to_be_bytes()
            } else {
                flags.to_le_bytes()
            },
            range: start..start.saturating_add(size),
            kind: kind(section, endian, name),
        });
    }
    Ok(Some(Sections {
        all,
        has_symbols,
        is_static: !has_loader && header.e_entry(endian).into() != 0,
    }))
}

fn kind<S: SectionHeader<Endian = Endianness>>(section: &S, endian: Endianness, name: &[u8]) -> Kind {
    let by_type = matches!(
        section.sh_type(endian),
        elf::SHT_SYMTAB | elf::SHT_STRTAB | elf::SHT_DYNSYM | elf::SHT_DYNAMIC | elf::SHT_NOTE | elf::SHT_SYMTAB_SHNDX
    );
    let is_stub = name.starts_with(b".plt") || name == b".iplt";
    if by_type || is_stub || NAMED.contains(&name) {
        Kind::Needed
    } else if name.starts_with(b".debug_") || name.starts_with(b".zdebug_") {
        Kind::Debug
    } else if GO.contains(&name) {
        Kind::Go
    } else if section.sh_flags(endian).contains(elf::SHF_EXECINSTR) {
        Kind::Code
    } else {
        Kind::Other
    }
}

/// Whether the section's bytes are in this file: it was not left out of a copy.
pub(crate) fn is_here(section: &object::Section<'_, '_>) -> bool {
    !matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & u64::from(ABSENT) == u64::from(ABSENT))
}

#[cfg(test)]
#[path = "excerpt_tests.rs"]
mod tests;
