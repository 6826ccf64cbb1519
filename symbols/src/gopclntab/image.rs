//! Finds the table in a file, and what only the runtime's description of the program (`moduledata`) locates: the start
//! of the code, and `go:func.*`.

use object::{Object as _, ObjectSection as _, SectionFlags, SectionKind};
use rustc_hash::FxHashMap;

use super::header::{Header, Version, word_at};
use crate::elf::{Arch, ElfBytes, ElfFile, Section, is_here};

/// Names of the section, in programs at fixed addresses and in position-independent ones.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Other linkers than Go's merge the latter into this one.
const MERGED: &str = ".data.rel.ro";
/// Only files from Go have them.
const SIGNS: [&str; 2] = [".note.go.buildid", ".go.buildinfo"];
/// Alignment of the table and of `moduledata`, and the size of a pointer in it.
const WORD: usize = 8;
/// Maximum bytes of data, and of relocations, that are searched: far more than the largest programs have.
const MAX_SEARCHED: usize = 256 << 20;
/// Maximum number of sections that are searched: a file has about forty.
const MAX_SECTIONS: usize = 4096;
/// Maximum number of places that could be `moduledata`.
const MAX_CANDIDATES: usize = 16;
/// Words of `moduledata` that are read, by their index.
const TABLE: u64 = 0;
const NAMES: u64 = 1;
const FIRST_CODE: u64 = 20;
const TEXT: u64 = 22;
const WORDS: u64 = 44;

const SHF_WRITE: u64 = 1;
const SHF_ALLOC: u64 = 2;
/// Size in bytes of a relocation with an addend (`Elf64_Rela`).
const RELA: usize = 24;

/// The table, and where it refers to.
pub(super) struct Found {
    pub table: ElfBytes,
    pub header: Header,
    pub text: u64,
    /// `text` is the start of `.text`, which other linkers than Go's begin with other code.
    pub is_guess: bool,
    pub go_func: Option<ElfBytes>,
}

/// Finds the table of `elf`.
pub(super) fn find(elf: &ElfFile) -> Option<Found> {
    let (table, svma) = table(elf)?;
    let header = Header::parse(&table)?;
    if header.version < Version::Go1_18 {
        // Entry points are addresses.
        return Some(Found {
            table,
            header,
            text: 0,
            is_guess: false,
            go_func: None,
        });
    }
    let module = (header.word == WORD)
        .then(|| Image::of(elf)?.module(svma, &header, &table))
        .flatten();
    let stated = (header.text != 0).then_some(header.text);
    let text = module.as_ref().map(|module| module.text).or(stated);
    Some(Found {
        table,
        header,
        text: text.or_else(|| Some(elf.section_svma(".text")?.start))?,
        is_guess: text.is_none(),
        go_func: module.and_then(|module| module.go_func),
    })
}

/// The bytes of the table, and their stated address.
fn table(elf: &ElfFile) -> Option<(ElfBytes, u64)> {
    let own = SECTIONS.iter().find_map(|name| elf.section(name));
    if let Some(Section { svma, bytes }) = own.filter(|section| !section.bytes.is_empty()) {
        return Some((bytes, svma.start));
    }
    if !SIGNS.iter().any(|name| elf.has_section(name)) {
        return None;
    }
    let Section { svma, bytes } = elf.section(MERGED)?;
    let aligned = usize::try_from(svma.start.wrapping_neg() % WORD as u64).ok()?;
    let searched = bytes.get(..MAX_SEARCHED).unwrap_or(&bytes);
    let at = (aligned..searched.len()).step_by(WORD).find(|at| {
        let table = bytes.get(*at..).unwrap_or_default();
        // Nearly all places end here, before anything is read.
        table.get(3) == Some(&0xff) && Header::parse(table).is_some()
    })?;
    Some((
        bytes.slice(at as u64..bytes.len() as u64)?,
        svma.start.checked_add(at as u64)?,
    ))
}

/// What is needed of `moduledata`.
struct Module {
    text: u64,
    go_func: Option<ElfBytes>,
}

/// The data of a file as it is in memory, at its stated address.
struct Image {
    /// Stated address and bytes of each loaded section, sorted.
    sections: Vec<(u64, ElfBytes)>,
    /// Those that can contain pointers.
    writable: Vec<(u64, ElfBytes)>,
    /// Relocations that add the address at which the file is loaded.
    relocations: Vec<ElfBytes>,
    /// Their type.
    relative: u32,
}

impl Image {
    fn of(elf: &ElfFile) -> Option<Self> {
        let mut image = Self {
            sections: Vec::new(),
            writable: Vec::new(),
            relocations: Vec::new(),
            relative: match elf.arch() {
                Arch::X86_64 => object::elf::R_X86_64_RELATIVE.0,
                Arch::Aarch64 => object::elf::R_AARCH64_RELATIVE.0,
                Arch::Other(_) => return None,
            },
        };
        let mut left = MAX_SEARCHED;
        for section in elf.object().ok()?.sections().take(MAX_SECTIONS).filter(is_here) {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
                continue;
            };
            let bytes = section
                .file_range()
                .and_then(|(offset, size)| elf.bytes().slice(offset..offset.checked_add(size)?));
            let Some(bytes) = bytes.filter(|_| sh_flags.0 & SHF_ALLOC != 0) else {
                continue;
            };
            if section.name().is_ok_and(|name| name.starts_with(".rela")) {
                // The sections of a damaged file may overlap.
                if let Some(rest) = left.checked_sub(bytes.len()) {
                    left = rest;
                    image.relocations.push(bytes.clone());
                }
            } else if sh_flags.0 & SHF_WRITE != 0 && section.kind() != SectionKind::UninitializedData {
                image.writable.push((section.address(), bytes.clone()));
            }
            image.sections.push((section.address(), bytes));
        }
        image.sections.sort_by_key(|(start, _)| *start);
        Some(image)
    }

    /// Finds `moduledata` by its first words: pointers to the table and to the names in it.
    fn module(&self, table_svma: u64, header: &Header, table: &[u8]) -> Option<Module> {
        let candidates = self.pointers_to(table_svma);
        let relocated = self.relocated(&candidates);
        let word = |at: u64, index: u64| {
            let at = at.checked_add(index * WORD as u64)?;
            let here = || word_at(&self.bytes_at(at)?, 0, WORD);
            relocated.get(&at).copied().or_else(here)
        };
        let names = table_svma.checked_add(header.names as u64)?;
        let first = header.entry(table, 0)?;
        let is_module = |at: &&u64| {
            let text = word(**at, TEXT);
            word(**at, TABLE) == Some(table_svma)
                && word(**at, NAMES) == Some(names)
                && text.is_some_and(|text| text.checked_add(first) == word(**at, FIRST_CODE))
        };
        let at = *candidates.iter().find(is_module)?;
        let index = match header.version {
            Version::Go1_18 => 38,
            // Go 1.20 added the ends of coverage counters. Go 1.27 has the end of the types where others have the
            // start of read-only data, which is before the types, and three more words.
            _ if word(at, 39) > word(at, 37) => 43,
            _ => 40,
        };
        Some(Module {
            text: word(at, TEXT)?,
            go_func: word(at, index).and_then(|svma| self.bytes_at(svma)),
        })
    }

    /// Where a pointer to `svma` is, in the file or after relocation.
    fn pointers_to(&self, svma: u64) -> Vec<u64> {
        let mut left = MAX_SEARCHED;
        let in_place = self.writable.iter().flat_map(|(start, bytes)| {
            let searched = bytes.get(..left).unwrap_or(bytes);
            left = left.saturating_sub(searched.len());
            let words = searched.chunks_exact(WORD).zip(0_u64..);
            words
                .filter(|(word, _)| *word == svma.to_le_bytes())
                .filter_map(|(_, index)| start.checked_add(index * WORD as u64))
                .take(MAX_CANDIDATES)
                .collect::<Vec<_>>()
        });
        let added = (self.relative()).filter(|(_, value)| *value == svma).map(|(at, _)| at);
        added
            .take(MAX_CANDIDATES)
            .chain(in_place)
            .take(2 * MAX_CANDIDATES)
            .collect()
    }

    /// The relocated words of each candidate.
    fn relocated(&self, candidates: &[u64]) -> FxHashMap<u64, u64> {
        let is_near = |at: u64| {
            let mut starts = candidates.iter();
            starts.any(|start| {
                at.checked_sub(*start)
                    .is_some_and(|offset| offset < WORDS * WORD as u64)
            })
        };
        self.relative().filter(|(at, _)| is_near(*at)).collect()
    }

    /// The relocated words: stated address and value.
    fn relative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let entries = self.relocations.iter().flat_map(|bytes| bytes.chunks_exact(RELA));
        entries.filter_map(|entry| {
            let kind = word_at(entry, WORD, WORD)?;
            let found = Some((word_at(entry, 0, WORD)?, word_at(entry, 2 * WORD, WORD)?));
            found.filter(|_| kind == u64::from(self.relative))
        })
    }

    /// The bytes from `svma` to the end of its section.
    fn bytes_at(&self, svma: u64) -> Option<ElfBytes> {
        let behind = self.sections.partition_point(|(start, _)| *start <= svma);
        let (start, bytes) = self.sections.get(behind.checked_sub(1)?)?;
        let size = bytes.len() as u64;
        let offset = svma.checked_sub(*start).filter(|offset| *offset < size)?;
        bytes.slice(offset..size)
    }
}
