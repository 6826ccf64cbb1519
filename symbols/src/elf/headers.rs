//! Reads the headers of an ELF file once, and checks that everything they refer to exists.

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _};

use super::{Arch, ElfError, Segment};

/// The content of the headers.
pub(super) struct Headers {
    pub arch: Arch,
    pub entry: u64,
    pub segments: Vec<Segment>,
}

/// Which parts of the file must be present.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Segments and sections.
    Whole,
    /// Sections only: the segments of a separate debug file describe the binary that it was split from.
    Sections,
}

/// Reads the headers of `data`. Errors: not an ELF file, or a part that they refer to is missing.
pub(super) fn read(data: &[u8], extent: Extent) -> Result<Headers, ElfError> {
    let ident = data.get(..5).ok_or_else(|| truncated("the ELF header", 64, data))?;
    if !ident.starts_with(&elf::ELFMAG) {
        return Err(ElfError::NotElf);
    }
    if ident[4] == 1 {
        read_class::<elf::FileHeader32<Endianness>>(data, extent)
    } else {
        read_class::<elf::FileHeader64<Endianness>>(data, extent)
    }
}

fn read_class<E: FileHeader<Endian = Endianness>>(data: &[u8], extent: Extent) -> Result<Headers, ElfError> {
    let header_size = size_of::<E>();
    if data.len() < header_size {
        return Err(truncated("the ELF header", header_size as u64, data));
    }
    let header = E::parse(data)?;
    let endian = header.endian()?;
    let table = |name, start: u64, count: u32, size: u16| match u64::from(count).checked_mul(u64::from(size)) {
        Some(bytes) => require(name, start, bytes, data),
        None => Err(ElfError::Malformed(format!("{name} is larger than any file"))),
    };
    table(
        "the program header table",
        header.e_phoff(endian).into(),
        header.phnum(endian, data)?,
        header.e_phentsize(endian),
    )?;
    let section_table: u64 = header.e_shoff(endian).into();
    if section_table != 0 {
        // The number of sections may be stored in the first section header.
        require(
            "the section header table",
            section_table,
            header.e_shentsize(endian).into(),
            data,
        )?;
        table(
            "the section header table",
            section_table,
            header.shnum(endian, data)?,
            header.e_shentsize(endian),
        )?;
    }

    let mut segments = Vec::new();
    for (index, segment) in header.program_headers(endian, data)?.iter().enumerate() {
        if segment.p_type(endian) != elf::PT_LOAD {
            continue;
        }
        let (offset, file_size) = (segment.p_offset(endian).into(), segment.p_filesz(endian).into());
        if extent == Extent::Whole {
            require(&format!("segment {index}"), offset, file_size, data)?;
        }
        segments.push(Segment {
            file_offset: offset,
            svma: segment.p_vaddr(endian).into(),
            file_size,
            memory_size: segment.p_memsz(endian).into(),
            executable: segment.p_flags(endian).0 & elf::PF_X.0 != 0,
            writable: segment.p_flags(endian).0 & elf::PF_W.0 != 0,
        });
    }

    let sections = header.sections(endian, data)?;
    for section in sections.iter() {
        if let Some((offset, size)) = section.file_range(endian) {
            let name = String::from_utf8_lossy(sections.section_name(endian, section).unwrap_or_default());
            require(&format!("section {name}"), offset, size, data)?;
        }
    }
    Ok(Headers {
        arch: Arch::from_machine(header.e_machine(endian)),
        entry: header.e_entry(endian).into(),
        segments,
    })
}

fn require(what: &str, start: u64, size: u64, data: &[u8]) -> Result<(), ElfError> {
    let end = start
        .checked_add(size)
        .ok_or_else(|| ElfError::Malformed(format!("{what} ends beyond any file")))?;
    if end <= data.len() as u64 {
        Ok(())
    } else {
        Err(truncated(what, end, data))
    }
}

fn truncated(what: &str, needed: u64, data: &[u8]) -> ElfError {
    ElfError::Truncated {
        what: what.to_owned(),
        needed,
        found: data.len() as u64,
    }
}
