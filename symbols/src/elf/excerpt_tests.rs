//! Copies equal the file except for what was left out; damaged files do no harm.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::super::ElfFile;
use super::*;
use crate::patience::patiently;

const ALL: Limits = Limits {
    bytes: 256 << 20,
    debug: 256 << 20,
    code: true,
};

/// This test's own program, copied.
fn copied(limits: Limits) -> (ElfFile, io::Result<Excerpt>, File) {
    let program = std::env::current_exe().unwrap();
    let (from, to) = (File::open(&program).unwrap(), tempfile::tempfile().unwrap());
    let copy = to.try_clone().unwrap();
    let copied = patiently(Path::new("program"), move |progress| {
        excerpt(&from, &to, limits, progress)
    });
    let whole = ElfFile::open(File::open(program).unwrap()).unwrap();
    (whole, copied, copy)
}

#[test]
fn a_copy_has_the_files_symbols() {
    let (whole, excerpt, copy) = copied(Limits {
        debug: 0,
        code: false,
        ..ALL
    });
    let excerpt = excerpt.unwrap();
    let metadata = copy.metadata().unwrap();
    assert!(
        metadata.blocks() * 512 < metadata.len(),
        "what was left out takes no space"
    );
    let copy = ElfFile::open(copy).unwrap();
    assert!(excerpt.is_partial && excerpt.debug_left_out > 0, "{excerpt:?}");
    assert_eq!((copy.build_id(), copy.entry()), (whole.build_id(), whole.entry()));
    assert_eq!(copy.functions(), whole.functions());
    assert_eq!(copy.section_places(), whole.section_places());
    for name in [".eh_frame", ".eh_frame_hdr", ".dynamic", ".interp"] {
        assert_eq!(
            copy.section(name).unwrap().bytes[..],
            whole.section(name).unwrap().bytes[..],
            "{name}"
        );
    }
    assert_eq!(copy.section_svma(".text"), whole.section_svma(".text"));
    for name in [".text", ".rodata", ".debug_info"] {
        assert!(
            copy.section(name).is_none() && !copy.has_section(name),
            "{name} was left out"
        );
    }
}

#[test]
fn debug_information_and_code_are_copied_within_limits() {
    let (whole, excerpt, copy) = copied(ALL);
    assert_eq!(excerpt.unwrap().debug_left_out, 0);
    let copy = ElfFile::open(copy).unwrap();
    for name in [".text", ".debug_info", ".debug_line"] {
        let bytes = |elf: &ElfFile| elf.section(name).map(|section| section.bytes.to_vec());
        assert_eq!(bytes(&copy), bytes(&whole), "{name}");
    }
    assert!(copy.section(".rodata").is_none());
}

#[test]
fn a_file_with_too_many_symbols_is_rejected() {
    let (_, excerpt, _) = copied(Limits { bytes: 4096, ..ALL });
    assert_eq!(excerpt.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn a_copy_of_a_non_elf_file_is_not_elf() {
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[b'x'; 100], &[0x7f; 64]] {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.write_all_at(bytes, 0).unwrap();
        let copy = to.try_clone().unwrap();
        let copied = patiently(Path::new("text"), move |progress| excerpt(&from, &to, ALL, progress)).unwrap();
        assert_eq!(copied.bytes, bytes.len().min(64) as u64);
        assert!(ElfFile::open(copy).is_err());
    }
}

#[test]
fn damaged_files_are_copied_or_rejected() {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let header = |at: usize, bytes: &[u8]| {
        let mut damaged = program[..1 << 16].to_vec();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        damaged
    };
    for damaged in [
        header(0, b"\x7fELF"),
        header(40, &[0xff; 8]),
        header(40, &1_u64.to_le_bytes()),
        header(32, &[0xff; 8]),
        header(58, &[0xff; 6]),
        header(54, &[0; 4]),
        header(4, &[1]),
        header(5, &[2]),
    ] {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.write_all_at(&damaged, 0).unwrap();
        let _ = patiently(Path::new("damaged"), move |progress| excerpt(&from, &to, ALL, progress));
    }
}
