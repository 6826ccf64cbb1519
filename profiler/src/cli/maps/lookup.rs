//! Resolves addresses of a running process to the file, the offset in it, and the address in the
//! ELF file.

use rustc_hash::FxHashSet;
use symbols::elf::{ElfFile, Segment};

use crate::addr::{Avma, FileOffset, Svma};
use crate::capture::files::open;
use crate::capture::privilege::rights::Rights;
use crate::capture::space::maps::file_offset;
use crate::event::{At, FileId, Mapping, PROT_EXEC};
use crate::record::binaries::{OpenBinaries, Vdso};
use crate::unwind::Binaries as _;

/// The kernel maps whole pages, so a mapping covers slightly more than its segment.
const PAGE: u64 = 4096;
const VDSO: &[u8] = b"[vdso]";

/// The result for an address of a process.
#[derive(Debug)]
pub struct Place {
    /// The address.
    pub address: Avma,
    /// What is mapped there, if anything.
    pub mapped: Option<Mapped>,
}

/// A mapped byte.
#[derive(Debug)]
pub struct Mapped {
    /// The mapping.
    pub mapping: Mapping,
    /// Build id of its file, empty if it has none.
    pub build_id: Vec<u8>,
    /// Offset in the file; `None`: no file.
    pub offset: Option<FileOffset>,
    /// Address in the ELF file, or why there is none.
    pub svma: Result<Svma, String>,
}

/// Resolves addresses with the mappings that cover them. Opens each file once, with the rights
/// `own`.
pub fn places(pid: u32, addresses: &[Avma], mappings: Vec<Option<Mapping>>, own: &Rights) -> Vec<Place> {
    let mut seen = FxHashSet::default();
    let files = mappings.iter().flatten().filter(|mapping| mapping.file.inode != 0);
    let opened = files.filter(|mapping| seen.insert(mapping.file)).map(|mapping| {
        let at = At { pid, ..At::default() };
        let (mapped, file) = open::mapped(&Mapping { at, ..mapping.clone() }, own);
        (mapped, file.map(Into::into))
    });
    let opened = opened.collect();
    let binaries = OpenBinaries::new(opened, Vdso::of_this_kernel());
    let places = addresses.iter().zip(mappings);
    places
        .map(|(&address, mapping)| Place {
            address,
            mapped: mapping.map(|mapping| mapped(&binaries, address, mapping)),
        })
        .collect()
}

fn mapped(binaries: &OpenBinaries, address: Avma, mapping: Mapping) -> Mapped {
    let path = String::from_utf8_lossy(&mapping.path);
    let offset = file_offset(&mapping, address);
    // Offset of the bytes in the ELF image: the vdso is an image without a file. That of a 32-bit
    // process is a different one.
    let image_offset = if mapping.path == VDSO && mapping.start.0 > u64::from(u32::MAX) {
        Some(FileOffset(address.0.wrapping_sub(mapping.start.0)))
    } else {
        offset
    };
    let (build_id, svma) = match image_offset {
        None => (Vec::new(), Err("no file is mapped there".to_owned())),
        Some(at) => {
            let file = if offset.is_some() {
                mapping.file
            } else {
                FileId::default()
            };
            match binaries.elf(file, &path, &mapping.build_id) {
                Ok(elf) => (
                    elf.build_id().to_vec(),
                    svma(&elf, at, mapping.protection & PROT_EXEC != 0)
                        .ok_or_else(|| "the file has no segment there".to_owned()),
                ),
                Err(problem) => (mapping.build_id.clone(), Err(problem)),
            }
        }
    };
    Mapped {
        mapping,
        build_id,
        offset,
        svma,
    }
}

/// The ELF address of the byte at a file offset. Segments share a page at their borders: then the
/// mapping's execute permission decides which one is meant.
fn svma(elf: &ElfFile, offset: FileOffset, executable: bool) -> Option<Svma> {
    let pages = |segment: &&Segment| {
        let end = segment.file_offset.saturating_add(segment.file_size);
        let end = end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        (segment.file_offset / PAGE * PAGE..end).contains(&offset.0)
    };
    let exact = |segment: &&Segment| {
        offset
            .0
            .checked_sub(segment.file_offset)
            .is_some_and(|at| at < segment.file_size)
    };
    let mut shown: Vec<&Segment> = elf.segments().iter().filter(pages).collect();
    // Stable: among equals, the file's order decides.
    shown.sort_by_key(|segment| (segment.executable != executable, !exact(segment)));
    let segment = shown.first()?;
    Some(Svma(
        segment.svma.wrapping_add(offset.0.wrapping_sub(segment.file_offset)),
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::capture::space::maps::{BuildIds, open};

    fn own(addresses: &[Avma]) -> Vec<Place> {
        let pid = std::process::id();
        let mappings = open(pid, None, BuildIds::OfKernel)
            .unwrap()
            .covering(addresses)
            .unwrap();
        places(pid, addresses, mappings, &Rights::own().unwrap())
    }

    #[test]
    fn our_own_function() {
        let address = Avma(our_own_function as fn() as usize as u64);
        let places = own(&[address, Avma(8)]);
        assert!(places[1].mapped.is_none());
        let place = places[0].mapped.as_ref().unwrap();
        let elf = ElfFile::open(File::open("/proc/self/exe").unwrap()).unwrap();
        assert_eq!(place.build_id, elf.build_id());
        // The symbol table, read by another program, gives the function's address.
        let exe = std::env::current_exe().unwrap();
        let symbols = std::process::Command::new("nm").arg(exe).output();
        let Ok(symbols) = symbols else {
            println!("skipped: no nm");
            return;
        };
        let text = String::from_utf8_lossy(&symbols.stdout);
        let line = text
            .lines()
            .find(|line| line.contains("lookup5tests16our_own_function") && !line.contains("closure"));
        let expected = u64::from_str_radix(line.unwrap().split(' ').next().unwrap(), 16).unwrap();
        assert_eq!(place.svma, Ok(Svma(expected)));
        // The bytes in the file are those in memory.
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let at = usize::try_from(place.offset.unwrap().0).unwrap();
        let mut memory = [0; 16];
        std::os::unix::fs::FileExt::read_exact_at(&File::open("/proc/self/mem").unwrap(), &mut memory, address.0)
            .unwrap();
        assert_eq!(&bytes[at..at + 16], &memory);
    }

    #[test]
    fn the_vdso_and_memory_without_a_file() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let start = |name: &str| {
            let line = maps.lines().find(|line| line.ends_with(name)).unwrap();
            u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()
        };
        let places = own(&[Avma(start("[vdso]") + 0x40), Avma(start("[stack]"))]);
        let vdso = places[0].mapped.as_ref().unwrap();
        assert_eq!((vdso.offset, vdso.svma.clone()), (None, Ok(Svma(0x40))));
        assert!(!vdso.build_id.is_empty());
        let stack = places[1].mapped.as_ref().unwrap();
        assert!(stack.offset.is_none() && stack.svma.is_err() && stack.build_id.is_empty());
    }

    #[test]
    fn a_file_that_is_not_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 5000]).unwrap();
        let file = File::open(&path).unwrap();
        let mapping = Mapping {
            at: At::default(),
            start: Avma(0x10000),
            len: 8192,
            file: file_id(&file),
            path: path.to_str().unwrap().into(),
            protection: 1,
            ..Mapping::default()
        };
        let places = places(
            std::process::id(),
            &[Avma(0x10001)],
            vec![Some(mapping)],
            &Rights::own().unwrap(),
        );
        let place = places[0].mapped.as_ref().unwrap();
        assert_eq!(place.offset, Some(FileOffset(1)));
        assert!(place.svma.as_ref().unwrap_err().contains("not an ELF file"));
    }

    fn file_id(file: &File) -> FileId {
        use std::os::unix::fs::MetadataExt as _;
        let meta = file.metadata().unwrap();
        FileId {
            major: libc::major(meta.dev()),
            minor: libc::minor(meta.dev()),
            inode: meta.ino(),
            generation: 0,
        }
    }
}
