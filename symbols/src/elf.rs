//! ELF files: identity, segments, and sections whose bytes can be kept. Parsing is the `object` crate's.

mod bytes;
pub(crate) mod compressed;
mod dynamic;
mod excerpt;
mod functions;
mod guard;
mod headers;
mod sections;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use object::read::CompressionFormat;
use object::{Object as _, ObjectSection as _};

pub use bytes::ElfBytes;
pub(crate) use bytes::Reading;
pub use dynamic::Dynamic;
pub(crate) use excerpt::is_here;
pub use excerpt::{Excerpt, Limits, excerpt};
pub use functions::FunctionSymbol;
use headers::{Extent, Headers};
pub use sections::SectionPlace;

use crate::patience;

/// Larger files are rejected.
const MAX_FILE_SIZE: u64 = 16 << 30;
/// Longer build ids are rejected: SHA-512 is the longest hash in use.
const MAX_BUILD_ID: usize = 64;

/// Why a file can't be used as an ELF file.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file can't be read.
    #[error("the file can't be read: {0}")]
    Io(#[from] io::Error),
    /// A directory, a pipe, or a device.
    #[error("not a regular file")]
    NotAFile,
    /// Another format.
    #[error("not an ELF file (its first bytes are not 7f 45 4c 46)")]
    NotElf,
    /// More than 16 GiB.
    #[error("{size} bytes are more than an ELF file can be here ({MAX_FILE_SIZE})")]
    TooLarge {
        /// Size of the file in bytes.
        size: u64,
    },
    /// The end of the file is missing.
    #[error("the file is cut off: {what} ends at byte {needed}, the file at byte {found}; install the package again")]
    Truncated {
        /// What is missing or incomplete.
        what: String,
        /// Required size of the file in bytes.
        needed: u64,
        /// Size of the file in bytes.
        found: u64,
    },
    /// The file is inconsistent.
    #[error("the file is damaged: {0}")]
    Malformed(String),
    /// The file was changed or truncated while it was read.
    #[error("the file was changed or cut off while it was read, so nothing of it is used; try again once it is whole")]
    Cut,
}

impl From<object::read::Error> for ElfError {
    fn from(error: object::read::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// The machine of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// `EM_X86_64`.
    X86_64,
    /// `EM_AARCH64`.
    Aarch64,
    /// Another value of `e_machine`.
    Other(u16),
}

impl Arch {
    fn from_machine(machine: object::elf::Machine) -> Self {
        match machine {
            object::elf::EM_X86_64 => Self::X86_64,
            object::elf::EM_AARCH64 => Self::Aarch64,
            object::elf::Machine(other) => Self::Other(other),
        }
    }
}

/// A part of the file that is mapped when it runs (`PT_LOAD`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Offset in the file.
    pub file_offset: u64,
    /// Stated address of its first byte.
    pub svma: u64,
    /// Size in the file in bytes.
    pub file_size: u64,
    /// Size in memory in bytes; those beyond `file_size` are zero.
    pub memory_size: u64,
    /// `PF_X`.
    pub executable: bool,
    /// `PF_W`.
    pub writable: bool,
}

/// A section and its bytes, decompressed.
#[derive(Debug, Clone)]
pub struct Section {
    /// Stated addresses; they start at zero if the section is not loaded.
    pub svma: Range<u64>,
    /// The contents.
    pub bytes: ElfBytes,
}

/// An ELF file whose headers are read, and whose segments and sections are complete.
#[derive(Debug, Clone)]
pub struct ElfFile {
    bytes: ElfBytes,
    build_id: Vec<u8>,
    arch: Arch,
    entry: u64,
    segments: Vec<Segment>,
}

impl ElfFile {
    /// Maps `file` and reads its headers.
    ///
    /// The mapping lives as long as any value that refers to it. A file that is truncated while it
    /// is mapped reads as zeros from the next read of the missing part on, and [`ElfFile::was_cut`]
    /// reports it: check it after the last read.
    ///
    /// Errors: every [`ElfError`]; the file system does not respond.
    pub fn open(file: File) -> Result<Self, ElfError> {
        let path = patience::name_of(&file);
        let here = patience::patiently(&path, move |progress| patience::here(file, progress))?;
        Self::open_here(&here)
    }

    /// As [`ElfFile::open`], but only the used pages are read into the page cache, not those around them: a program that
    /// starts with cold files waits for the others as it does otherwise.
    ///
    /// Errors: as for [`ElfFile::open`].
    pub fn open_sparingly(file: File) -> Result<Self, ElfError> {
        let path = patience::name_of(&file);
        let here = patience::patiently(&path, move |progress| patience::here(file, progress))?;
        Self::parse(map(&here, Reading::Only)?, Extent::Whole)
    }

    /// As [`ElfFile::open`], for a file on a file system that responds.
    pub(crate) fn open_here(file: &File) -> Result<Self, ElfError> {
        Self::parse(map(file, Reading::Around)?, Extent::Whole)
    }

    /// Reads an ELF image in memory, such as the vdso's. Errors: every [`ElfError`] except `Io`.
    pub fn from_bytes(bytes: Arc<[u8]>) -> Result<Self, ElfError> {
        Self::parse(bytes.into(), Extent::Whole)
    }

    /// Opens a separate debug file, whose segments are in the binary that it was split from.
    pub(crate) fn open_debug(file: &File) -> Result<Self, ElfError> {
        Self::parse(map(file, Reading::Around)?, Extent::Sections)
    }

    /// Reads a debug file in memory.
    pub(crate) fn debug_from_bytes(bytes: Vec<u8>) -> Result<Self, ElfError> {
        Self::parse(bytes.into(), Extent::Sections)
    }

    fn parse(bytes: ElfBytes, extent: Extent) -> Result<Self, ElfError> {
        let Headers { arch, entry, segments } = headers::read(&bytes, extent)?;
        let build_id = {
            let object = object::File::parse(&*bytes)?;
            object.build_id().ok().flatten().unwrap_or_default().to_vec()
        };
        if bytes.was_cut() {
            return Err(ElfError::Cut);
        }
        if build_id.len() > MAX_BUILD_ID {
            return Err(ElfError::Malformed(format!("a build id of {} bytes", build_id.len())));
        }
        Ok(Self {
            bytes,
            build_id,
            arch,
            entry,
            segments,
        })
    }

    /// The GNU build id; empty if the file has none.
    pub fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// The parts of the file that are mapped when it runs, in file order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The base of relative addresses: the stated address of the first segment, as in samply and
    /// the Firefox Profiler. Zero for libraries and position-independent executables.
    pub fn base_svma(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.svma)
    }

    /// The stated address of the entry point; zero in most libraries.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// The machine of the file.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The section `name`, decompressed if necessary. `None` if there is none, if it has no bytes
    /// in this file, or if they can't be decompressed or are larger than unwinding can need.
    /// [`ElfFile::section_size`] decompresses nothing.
    pub fn section(&self, name: &str) -> Option<Section> {
        let object = self.object().ok()?;
        let section = object.section_by_name(name).filter(is_here)?;
        section.file_range()?;
        let stored = section.compressed_file_range().ok()?;
        let bytes = if stored.format == CompressionFormat::None {
            self.bytes
                .slice(stored.offset..stored.offset.checked_add(stored.compressed_size)?)?
        } else {
            compressed::decompress_section(&section, &self.bytes)?.into()
        };
        let start = section.address();
        Some(Section {
            svma: start..start.checked_add(section.size())?,
            bytes,
        })
    }

    /// The stated addresses of the section `name`, if it has a place in the file; its bytes may not be here.
    pub fn section_svma(&self, name: &str) -> Option<Range<u64>> {
        let object = self.object().ok()?;
        let section = object.section_by_name(name)?;
        section.file_range()?;
        Some(section.address()..section.address().checked_add(section.size())?)
    }

    /// Whether the file has a section `name` with bytes in it.
    pub(crate) fn has_section(&self, name: &str) -> bool {
        let Ok(object) = self.object() else { return false };
        object
            .section_by_name(name)
            .filter(is_here)
            .is_some_and(|section| section.file_range().is_some_and(|(_, size)| size > 0))
    }

    /// The parsed file, for symbol tables.
    pub(crate) fn object(&self) -> Result<object::File<'_>, ElfError> {
        Ok(object::File::parse(&*self.bytes)?)
    }

    /// The bytes of the whole file.
    pub(crate) fn bytes(&self) -> &ElfBytes {
        &self.bytes
    }

    /// Whether the file was truncated while it was read: the results may be wrong.
    pub fn was_cut(&self) -> bool {
        self.bytes.was_cut()
    }
}

/// Maps a file of limited size.
pub(crate) fn map(file: &File, reading: Reading) -> Result<ElfBytes, ElfError> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(ElfError::NotAFile);
    }
    match metadata.len() {
        // An empty file can't be mapped.
        0 => Err(ElfError::Truncated {
            what: "the ELF header".to_owned(),
            needed: 64,
            found: 0,
        }),
        size if size > MAX_FILE_SIZE => Err(ElfError::TooLarge { size }),
        _ => Ok(ElfBytes::map(file, reading)?),
    }
}

#[cfg(test)]
mod tests;
