//! `MiniDebugInfo`: a small symbol table, compressed with xz, in `.gnu_debugdata` (in Fedora's
//! packages). Format: <https://sourceware.org/gdb/current/onlinedocs/gdb.html/MiniDebugInfo.html>.

use std::io::Read as _;

use lzma_rust2::XzReader;

use crate::elf::{ElfFile, compressed};

/// Larger contents are rejected; those of the largest libraries are a tenth of it.
const MAX_SIZE: u64 = 256 << 20;
/// Memory limit of the decompressor in KiB.
const MEMORY_LIMIT_KIB: u32 = 128 << 10;

/// The ELF file inside `elf`, or `None` if there is none or it is damaged.
pub(super) fn read(elf: &ElfFile) -> Option<ElfFile> {
    let section = elf.section(".gnu_debugdata")?;
    let limit = compressed::largest_plausible(section.bytes.len()).min(MAX_SIZE);
    let mut contents = Vec::new();
    XzReader::new_mem_limit(&*section.bytes, false, MEMORY_LIMIT_KIB)
        .take(limit + 1)
        .read_to_end(&mut contents)
        .ok()?;
    if contents.len() as u64 > limit {
        return None;
    }
    ElfFile::debug_from_bytes(contents).ok()
}
