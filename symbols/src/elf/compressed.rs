//! Compressed sections: how large they say they are, and whether that is believed.
//!
//! A compressor that is handed zeros makes a thousandth of them, so a small file can ask for any amount of memory. Sizes are taken
//! from headers, and bytes are made only where a compiler's output could have been compressed as much.

use object::read::{CompressedFileRange, CompressionFormat};
use object::{Object as _, ObjectSection as _, SectionFlags};

use super::ElfFile;

/// Sections of unwind information that claim to be larger are not decompressed: those of the largest browsers have a quarter.
const MAX_SIZE: u64 = 256 << 20;
/// Times that a section may be larger than its compressed bytes. Debug information gets 3 to 10 times as small.
const MAX_RATIO: u64 = 64;
/// Up to this size any ratio is believed: little is mostly what the compiler always writes.
const SMALL: u64 = 1 << 20;
/// elf.h. A loaded section is never compressed.
const SHF_ALLOC: u64 = 2;

/// Whether a section of this size could have been compressed to these bytes.
pub(crate) fn is_plausible(stored: &CompressedFileRange) -> bool {
    stored.uncompressed_size <= stored.compressed_size.saturating_mul(MAX_RATIO).max(SMALL)
}

/// As [`is_plausible`], of a compressed stream that does not say how large it will be: the size at which to stop.
pub(crate) fn largest_plausible(compressed: usize) -> u64 {
    (compressed as u64).saturating_mul(MAX_RATIO).max(SMALL)
}

/// The bytes of a compressed section. `None`: they are damaged, or too many.
pub(crate) fn decompress(stored: CompressedFileRange, file: &[u8], limit: u64) -> Option<Vec<u8>> {
    if stored.uncompressed_size > limit || !is_plausible(&stored) {
        return None;
    }
    // It makes exactly as many bytes as the header says, or none.
    let bytes = stored.data(file).ok()?.decompress().ok()?;
    Some(bytes.into_owned())
}

/// As [`decompress`], of what is needed to unwind.
pub(super) fn decompress_section(section: &object::Section<'_, '_>, file: &[u8]) -> Option<Vec<u8>> {
    let is_loaded = matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_ALLOC != 0);
    if is_loaded {
        return None;
    }
    decompress(section.compressed_file_range().ok()?, file, MAX_SIZE)
}

impl ElfFile {
    /// Bytes of the section `name`, decompressed, as the headers say it; 0 if it has none in this file.
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
