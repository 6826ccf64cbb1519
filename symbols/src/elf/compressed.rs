//! Compressed sections: their claimed sizes, and whether these are plausible.
//!
//! Compression reduces zeros to a thousandth, so a small file can require any amount of memory.
//! Sizes are taken from headers, and a section is decompressed only if the ratio is possible for a
//! compiler's output.

use object::read::{CompressedFileRange, CompressionFormat};
use object::{Object as _, ObjectSection as _, SectionFlags};

use super::ElfFile;

/// Larger sections of unwind information are not decompressed: those of the largest browsers have a
/// quarter.
const MAX_SIZE: u64 = 256 << 20;
/// Maximum ratio of a section to its compressed bytes. Debug information has 3 to 10.
const MAX_RATIO: u64 = 64;
/// Up to this size, any ratio is accepted: small sections mostly contain what the compiler always
/// emits.
const SMALL: u64 = 1 << 20;
/// elf.h. A loaded section is never compressed.
const SHF_ALLOC: u64 = 2;

/// Whether a section of this size could have been compressed to these bytes.
pub(crate) fn is_plausible(stored: &CompressedFileRange) -> bool {
    stored.uncompressed_size <= stored.compressed_size.saturating_mul(MAX_RATIO).max(SMALL)
}

/// As [`is_plausible`], for a compressed stream without a size: the size at which to stop.
pub(crate) fn largest_plausible(compressed: usize) -> u64 {
    (compressed as u64).saturating_mul(MAX_RATIO).max(SMALL)
}

/// Decompresses a section. `None`: it is damaged or too large.
pub(crate) fn decompress(stored: CompressedFileRange, file: &[u8], limit: u64) -> Option<Vec<u8>> {
    if stored.uncompressed_size > limit || !is_plausible(&stored) {
        return None;
    }
    // It decompresses to exactly the size in the header, or fails.
    let bytes = stored.data(file).ok()?.decompress().ok()?;
    Some(bytes.into_owned())
}

/// As [`decompress`], for sections that unwinding needs.
pub(super) fn decompress_section(section: &object::Section<'_, '_>, file: &[u8]) -> Option<Vec<u8>> {
    let is_loaded = matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_ALLOC != 0);
    if is_loaded {
        return None;
    }
    decompress(section.compressed_file_range().ok()?, file, MAX_SIZE)
}

impl ElfFile {
    /// Decompressed size of the section `name` in bytes, according to the headers; 0 if it has no
    /// bytes in this file.
    pub fn section_size(&self, name: &str) -> u64 {
        let Ok(object) = self.object() else { return 0 };
        let section = object
            .section_by_name(name)
            .filter(|section| section.file_range().is_some());
        section
            .and_then(|section| section.compressed_file_range().ok())
            .map_or(0, |stored| match stored.format {
                CompressionFormat::None => stored.compressed_size,
                _ => stored.uncompressed_size,
            })
    }
}
