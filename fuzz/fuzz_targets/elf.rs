//! ELF headers, sections, symbol tables, unwind tables and DWARF made of anything.
#![no_main]

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use symbols::elf::ElfFile;
use symbols::{BinaryRequest, Config, SymbolError, Symbolicator};

static SYMBOLICATOR: LazyLock<Symbolicator> = LazyLock::new(|| Symbolicator::new(Config::default()).unwrap());

fuzz_target!(|contents: &[u8]| {
    let Ok(elf) = ElfFile::from_bytes(Arc::from(contents)) else {
        return;
    };
    elf.dynamic();
    for name in [".text", ".eh_frame", ".eh_frame_hdr", ".gnu_debugdata", ".debug_info"] {
        elf.section(name);
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(contents).unwrap();
    let open_path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let request = BinaryRequest {
        path: open_path.clone(),
        open_path,
        build_id: elf.build_id().to_vec(),
    };
    let addresses = [0, 1, 0x1000, 0x1040, 0xffff_ffff];
    match SYMBOLICATOR.resolve(&request, &addresses) {
        Ok(names) => assert_eq!(names.len(), addresses.len()),
        // A panic inside a library, caught: worth reporting there, but no fault of ours.
        Err(SymbolError::Crashed { .. }) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
