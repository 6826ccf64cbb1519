//! `/etc/ld.so.cache`: the paths of libraries (glibc, sysdeps/generic/dl-cache.h).

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use symbols::elf::Arch;

use crate::capture::files::open::open_regular;

/// First bytes of the format that every glibc since 2.2 writes.
const MAGIC: &[u8; 20] = b"glibc-ld.so.cache1.1";
/// First bytes of the older format, which may precede it.
const OLD_MAGIC: &[u8; 11] = b"ld.so-1.7.0";
/// Larger files are not read: a complete desktop has 200 KiB.
const FILE_LIMIT: u64 = 16 << 20;
/// Longest name, in bytes.
const MAX_NAME: usize = 4096;

/// The path of each library; empty if there is no readable cache.
pub(super) fn read(path: &Path) -> FxHashMap<(Arch, Vec<u8>), PathBuf> {
    let mut bytes = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(FILE_LIMIT).read_to_end(&mut bytes));
    read.ok().and_then(|_| parse(&bytes)).unwrap_or_default()
}

fn parse(bytes: &[u8]) -> Option<FxHashMap<(Arch, Vec<u8>), PathBuf>> {
    let cache = bytes.get(behind_the_old_format(bytes)?..)?;
    if !cache.starts_with(MAGIC) {
        return None;
    }
    let number = |at: usize| Some(u32::from_le_bytes(*cache.get(at..)?.first_chunk()?));
    let text = |at: u32| {
        let start = cache.get(usize::try_from(at).ok()?..)?;
        let len = start.iter().take(MAX_NAME).position(|byte| *byte == 0)?;
        Some(start[..len].to_vec())
    };
    // Magic, number of entries, bytes of strings, flags, extensions, three unused words; then entries of 24 bytes.
    let entries = cache.get(48..)?.chunks_exact(24).take(number(20)? as usize);
    let mut libraries = FxHashMap::default();
    for index in 0..entries.len() {
        let at = 48 + index * 24;
        // Flags, name, path, operating system, capabilities of the processor (64 bits).
        let (flags, name, path) = (number(at)?, number(at + 4)?, number(at + 8)?);
        let is_for_any_processor = number(at + 16)? == 0 && number(at + 20)? == 0;
        let arch = match flags {
            0x0303 => Arch::X86_64,
            0x0a03 => Arch::Aarch64,
            _ => continue,
        };
        if is_for_any_processor && let (Some(name), Some(path)) = (text(name), text(path)) {
            let path = PathBuf::from(OsString::from_vec(path));
            libraries.entry((arch, name)).or_insert(path);
        }
    }
    Some(libraries)
}

/// Where the new format starts.
fn behind_the_old_format(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(OLD_MAGIC) {
        return Some(0);
    }
    let entries = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?);
    usize::try_from(entries)
        .ok()?
        .checked_mul(12)?
        .checked_add(16)?
        .checked_next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One library, preceded by `old` entries of the old format.
    fn cache(old: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        if old > 0 {
            bytes.extend(OLD_MAGIC);
            bytes.push(0);
            bytes.extend(old.to_le_bytes());
            bytes.resize((16 + old as usize * 12).next_multiple_of(8), 0);
        }
        bytes.extend(MAGIC);
        for word in [2u32, 30, 0, 0, 0, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        // The first entry is for certain processors only.
        for (capability, path) in [(1u32, 101u32), (0, 101)] {
            for word in [0x303u32, 96, path, 0, capability, 0] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes.extend(b"liba\0/lib/liba\0");
        bytes
    }

    #[test]
    fn both_formats() {
        for old in [0, 1, 2] {
            let libraries = parse(&cache(old)).unwrap();
            assert_eq!(libraries.len(), 1);
            assert_eq!(libraries[&(Arch::X86_64, b"liba".to_vec())], Path::new("/lib/liba"));
        }
        assert_eq!(parse(b"something else"), None);
    }

    proptest! {
        #[test]
        fn damage_is_survived(changes in prop::collection::vec((0usize..120, any::<u8>()), 0..8), cut in 0usize..140) {
            let mut bytes = cache(1);
            for (at, value) in changes {
                let len = bytes.len();
                bytes[at % len] = value;
            }
            bytes.truncate(cut);
            let _ = parse(&bytes);
        }
    }
}
