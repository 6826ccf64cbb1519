//! The information in a file for the dynamic loader: its interpreter, and the libraries that it
//! needs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use object::Endianness;
use object::elf;
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};

use super::ElfFile;

/// Maximum number of listed libraries: the largest programs need two hundred.
const MAX_NEEDED: usize = 1024;
/// Longer names are skipped: the kernel's longest path.
const MAX_NAME: usize = 4096;

/// Information for the dynamic loader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// `PT_INTERP`: the loader itself.
    pub interpreter: Option<OsString>,
    /// `DT_SONAME`: the name by which other files refer to this library.
    pub soname: Option<OsString>,
    /// `DT_NEEDED`, in order: names or paths.
    pub needed: Vec<OsString>,
    /// `DT_RPATH`: folders, separated by colons.
    pub rpath: Option<OsString>,
    /// `DT_RUNPATH`: folders, separated by colons.
    pub runpath: Option<OsString>,
}

impl ElfFile {
    /// Reads the information for the dynamic loader; empty for a static program, or where the file
    /// is damaged.
    pub fn dynamic(&self) -> Dynamic {
        let data: &[u8] = self.bytes();
        let mut dynamic = Dynamic::default();
        let read = if data.get(4) == Some(&1) {
            read::<elf::FileHeader32<Endianness>>(data, &mut dynamic)
        } else {
            read::<elf::FileHeader64<Endianness>>(data, &mut dynamic)
        };
        // Everything before the damage is still valid.
        let _ = read;
        if self.was_cut() { Dynamic::default() } else { dynamic }
    }
}

fn read<E: FileHeader<Endian = Endianness>>(data: &[u8], to: &mut Dynamic) -> object::read::Result<()> {
    let header = E::parse(data)?;
    let endian = header.endian()?;
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            to.interpreter = name(path);
        }
    }
    let sections = header.sections(endian, data)?;
    let Some((entries, link)) = sections.dynamic(endian, data)? else {
        return Ok(());
    };
    let strings = sections.strings(endian, data, link)?;
    for entry in entries {
        match entry.tag(endian) {
            elf::DT_NULL => break,
            elf::DT_NEEDED if to.needed.len() < MAX_NEEDED => to.needed.extend(name(entry.string(endian, strings)?)),
            elf::DT_SONAME => to.soname = name(entry.string(endian, strings)?),
            elf::DT_RPATH => to.rpath = name(entry.string(endian, strings)?),
            elf::DT_RUNPATH => to.runpath = name(entry.string(endian, strings)?),
            _ => {}
        }
    }
    Ok(())
}

fn name(bytes: &[u8]) -> Option<OsString> {
    (!bytes.is_empty() && bytes.len() <= MAX_NAME).then(|| OsStr::from_bytes(bytes).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_needs_libc() {
        let exe = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let dynamic = ElfFile::open(exe).unwrap().dynamic();
        assert!(dynamic.needed.iter().any(|name| name == "libc.so.6"), "{dynamic:?}");
        assert!(dynamic.interpreter.is_some(), "{dynamic:?}");
    }
}
