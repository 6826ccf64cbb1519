//! Small files that claim, or contain, any amount of bytes: their cost is bounded by their own
//! size. The peak of this process's memory is compared, so the tests run one after another.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod build;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use build::{Build, request, symbolicator};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use symbols::elf::ElfFile;

/// Decompressed size of the bombs in bytes.
const HELD: u64 = 512 << 20;
/// Maximum bytes for reading one: the largest is accepted with 64 times its half megabyte.
const MAY_TAKE: u64 = 96 << 20;

const SHF_ALLOC: u64 = 2;
const SHF_COMPRESSED: u64 = 1 << 11;
const ZLIB: u32 = 1;
const ZSTD: u32 = 2;

static TURN: Mutex<()> = Mutex::new(());

/// Peak memory of this process in bytes during `action`, beyond that before it.
fn peak(action: impl FnOnce()) -> u64 {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let resident = |name: &str| {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    let before = resident("VmRSS:");
    fs::write("/proc/self/clear_refs", "5").unwrap(); // resets the peak (proc_pid_clear_refs(5))
    action();
    resident("VmHWM:").saturating_sub(before)
}

fn zlib(size: u64) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..size >> 20 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.finish().unwrap()
}

/// A frame of blocks of one repeated byte: 4 bytes for 128 KiB (RFC 8878).
fn zstd(size: u64) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    let blocks = size >> 17;
    for block in 1..=blocks {
        let header: u32 = u32::from(block == blocks) | 1 << 1 | (1 << 17) << 3;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

/// A compressed section: its header (`Elf64_Chdr`) and its content.
fn section(kind: u32, claimed: u64, compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&claimed.to_le_bytes());
    bytes.extend_from_slice(&1_u64.to_le_bytes());
    bytes.extend_from_slice(compressed);
    bytes
}

/// An ELF file for x86-64 with these sections: name, flags, bytes.
fn elf(sections: &[(&str, u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = vec![0; 64];
    file[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    file[16..20].copy_from_slice(&[3, 0, 62, 0]);
    file[20] = 1;
    file[52] = 64;
    let mut names = vec![0];
    let mut headers = vec![0; 64];
    let mut add = |file: &mut Vec<u8>, names: &mut Vec<u8>, name: &str, kind: u32, flags: u64, bytes: Option<&[u8]>| {
        let mut header = vec![0; 64];
        header[..4].copy_from_slice(&u32::try_from(names.len()).unwrap().to_le_bytes());
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        let bytes = bytes.map_or_else(|| names.clone(), <[u8]>::to_vec);
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[8..16].copy_from_slice(&flags.to_le_bytes());
        header[24..32].copy_from_slice(&(file.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        file.extend_from_slice(&bytes);
        headers.extend_from_slice(&header);
    };
    for (name, flags, bytes) in sections {
        add(&mut file, &mut names, name, 1, *flags, Some(bytes));
    }
    add(&mut file, &mut names, ".shstrtab", 3, 0, None);
    let table = file.len() as u64;
    file[40..48].copy_from_slice(&table.to_le_bytes());
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    let count = u16::try_from(sections.len() + 2).unwrap();
    file[60..62].copy_from_slice(&count.to_le_bytes());
    file[62..64].copy_from_slice(&(count - 1).to_le_bytes());
    file.extend(headers);
    file
}

#[test]
fn unwind_information_that_claims_or_holds_too_much() {
    let bombs = [
        (ZLIB, zlib(HELD), HELD),
        (ZSTD, zstd(HELD), HELD),
        // It contains more than it claims.
        (ZLIB, zlib(HELD), 1 << 20),
        (ZSTD, zstd(HELD), 1 << 20),
    ];
    for (kind, compressed, claimed) in bombs {
        for name in [".debug_frame", ".eh_frame", ".text"] {
            // Loaded sections are never compressed.
            let loaded = if name == ".debug_frame" { 0 } else { SHF_ALLOC };
            let bytes = elf(&[(name, SHF_COMPRESSED | loaded, section(kind, claimed, &compressed))]);
            let elf = ElfFile::from_bytes(Arc::from(bytes)).unwrap();
            let taken = peak(|| {
                // One that contains more than it claims is read as what it claims.
                let made = elf.section(name).map_or(0, |section| section.bytes.len() as u64);
                assert!(
                    made == 0 || (made == claimed && claimed < HELD && name == ".debug_frame"),
                    "{made} bytes"
                );
                assert_eq!(elf.section_size(name), claimed);
            });
            assert!(taken < MAY_TAKE, "{name}, kind {kind}, claims {claimed}: {taken} bytes");
        }
    }
}

/// The length is in the header: nothing is decompressed for it.
#[test]
fn plausible_sections_are_decompressed_once() {
    let mut noise = 1_u64;
    let plain: Vec<u8> = (0..32 << 20)
        .map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 60) as u8
        })
        .collect();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&plain).unwrap();
    let size = plain.len() as u64;
    let compressed = section(ZLIB, size, &encoder.finish().unwrap());
    let elf = ElfFile::from_bytes(Arc::from(elf(&[(".debug_frame", SHF_COMPRESSED, compressed)]))).unwrap();
    let taken = peak(|| assert_eq!(elf.section_size(".debug_frame"), size));
    assert!(taken < 8 << 20, "{taken} bytes for a length");
    let mut section = None;
    let taken = peak(|| section = elf.section(".debug_frame"));
    assert_eq!(&*section.unwrap().bytes, &*plain);
    assert!(taken < size * 3 / 2, "{taken} bytes for {size}");
}

fn assert_no_more(path: &Path, what: &str) {
    let taken = peak(|| {
        let _ = symbolicator().resolve(&request(path), &[0, 64]);
    });
    assert!(taken < MAY_TAKE, "{what}: {taken} bytes");
}

#[test]
fn debug_information_that_claims_or_holds_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb");
    let gnu = [b"ZLIB".as_slice(), &HELD.to_be_bytes(), &zlib(HELD)].concat();
    let compressed = |kind, claimed, bytes: &[u8]| section(kind, claimed, bytes);
    let bombs = [
        (
            "zlib",
            ".debug_info",
            SHF_COMPRESSED,
            compressed(ZLIB, HELD, &zlib(HELD)),
        ),
        (
            "zstd",
            ".debug_info",
            SHF_COMPRESSED,
            compressed(ZSTD, HELD, &zstd(HELD)),
        ),
        (
            "zstd that claims little",
            ".debug_info",
            SHF_COMPRESSED,
            compressed(ZSTD, 1000, &zstd(HELD)),
        ),
        ("the older way", ".zdebug_info", 0, gnu),
    ];
    for (what, name, flags, bytes) in bombs {
        let code = (".text", 6, vec![0x90; 128]);
        fs::write(&path, elf(&[code, (name, flags, bytes)])).unwrap();
        assert_no_more(&path, what);
    }
}

#[test]
fn a_dwo_file_that_holds_too_much() {
    let source = include_str!("programs/functions.c");
    let build = Build::new("split", "c", source, &["-O1", "-g", "-gsplit-dwarf"]);
    let symbol = build.symbol("private_middle");
    let files = fs::read_dir(&build.directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let dwo = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "dwo"));
    let bomb = section(ZSTD, 1000, &zstd(HELD));
    fs::write(dwo.unwrap(), elf(&[(".debug_info.dwo", SHF_COMPRESSED, bomb)])).unwrap();
    let mut names = Vec::new();
    let taken = peak(|| names = build.resolve(&symbol.probes()).unwrap());
    assert!(names.iter().flatten().all(|name| name.symbol == "private_middle") && names.len() == 3);
    assert!(taken < MAY_TAKE, "{taken} bytes");
}

#[test]
fn mini_debug_info_that_holds_too_much() {
    let build = Build::new("mini", "c", "int main(void) { return 0; }", &["-O1"]);
    fs::File::create(build.path("zeros"))
        .unwrap()
        .set_len(200 << 20)
        .unwrap();
    build.tool("xz", &["-0", "zeros"]);
    build.tool("objcopy", &["--add-section", ".gnu_debugdata=zeros.xz", "mini"]);
    assert_no_more(&build.binary, "xz");
}
