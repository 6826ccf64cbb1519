//! ELF headers with arbitrary content.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// A 64-bit little-endian header with nothing after it.
fn header() -> Vec<u8> {
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    bytes.resize(64, 0);
    bytes[16] = 3; // ET_DYN
    bytes[18] = 62; // EM_X86_64
    bytes[20] = 1; // EV_CURRENT
    bytes[52] = 64; // e_ehsize
    bytes
}

fn open(bytes: &[u8]) -> Result<ElfFile, ElfError> {
    let elf = ElfFile::from_bytes(Arc::from(bytes))?;
    elf.dynamic();
    for name in [".text", ".eh_frame", ".debug_info", ""] {
        elf.section(name);
    }
    Ok(elf)
}

#[test]
fn nothing_but_a_header() {
    let elf = open(&header()).unwrap();
    assert_eq!((elf.base_svma(), elf.entry(), elf.build_id()), (0, 0, &[][..]));
    assert_eq!((elf.arch(), elf.dynamic().soname), (Arch::X86_64, None));
}

#[test]
fn every_shorter_header_says_what_is_missing() {
    let header = header();
    for length in 0..64 {
        let error = open(&header[..length]).unwrap_err();
        assert!(
            matches!(error, ElfError::Truncated { found, .. } if found == length as u64),
            "{length}: {error}"
        );
    }
}

#[test]
fn slices_end_where_the_bytes_end() {
    let bytes = ElfBytes::from(Arc::<[u8]>::from(&b"0123456789"[..]));
    let middle = bytes.slice(2..6).unwrap();
    assert_eq!(&*middle, b"2345");
    assert_eq!(&*middle.slice(1..3).unwrap(), b"34");
    assert_eq!(&*middle.slice(4..4).unwrap(), b"");
    for (start, end) in [(3, 2), (0, 5), (5, 5), (u64::MAX, u64::MAX), (0, u64::MAX)] {
        assert!(middle.slice(start..end).is_none(), "{start}..{end}");
    }
}

proptest! {
    #[test]
    fn any_header(fields in prop::collection::vec(any::<u8>(), 60), rest in prop::collection::vec(any::<u8>(), 0..400)) {
        let bytes = [b"\x7fELF", &*fields, &*rest].concat();
        let _ = open(&bytes);
    }

    /// Plausible tables at any offset, of any length.
    #[test]
    fn any_tables(
        offsets in any::<(u64, u64)>(),
        small in any::<bool>(),
        sizes in (prop::sample::select(vec![0_u16, 32, 40, 56, 64, 65535]), any::<u8>(), any::<u8>()),
        rest in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut bytes = header();
        let limit = |offset: u64| if small { offset % 700 } else { offset };
        bytes[32..40].copy_from_slice(&limit(offsets.0).to_le_bytes());
        bytes[40..48].copy_from_slice(&limit(offsets.1).to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&u16::from(sizes.1).to_le_bytes());
        bytes[58..60].copy_from_slice(&sizes.0.to_le_bytes());
        bytes[60..62].copy_from_slice(&u16::from(sizes.2).to_le_bytes());
        bytes.extend(rest);
        let _ = open(&bytes);
    }
}
