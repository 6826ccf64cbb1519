//! Tables of Go's runtime made of anything, in an ELF file that is otherwise in order.
#![no_main]

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use symbols::{BinaryRequest, Config, SymbolError, Symbolicator};

static SYMBOLICATOR: LazyLock<Symbolicator> = LazyLock::new(|| Symbolicator::new(Config::default()).unwrap());

/// Stated addresses, and the size of the code.
const TEXT: u64 = 0x1_0000;
const CODE: usize = 256;
const TABLE: u64 = 0x2_0000;
const GO_FUNC: u64 = 0x40_0000;
const DATA: u64 = 0x60_0000;
/// Numbers in the header of the table, and words of `moduledata`.
const NAMES: usize = 32;
const WORDS: usize = 48;

/// The description of the program, which says where the code and the inlined calls are.
fn moduledata(table: &[u8], index: usize) -> Vec<u8> {
    let number = |at: usize| {
        let bytes = table.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let mut words = [0; WORDS];
    (words[0], words[1]) = (TABLE, TABLE.wrapping_add(number(NAMES)));
    (words[20], words[22], words[37], words[39]) = (TEXT, TEXT, TABLE, TABLE + u64::from(index > 40));
    words[index] = GO_FUNC;
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A file with these sections: name, flags, stated address, bytes.
fn elf(sections: &[(&str, u64, u64, &[u8])]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([3, 0, 62, 0, 1]);
    file.resize(64, 0);
    let mut names = vec![0];
    let mut headers = vec![0; 64];
    for (name, flags, svma, bytes) in sections.iter().copied().chain([(".shstrtab", 0, 0, &[][..])]) {
        let kind = if flags == 0 { 3_u32 } else { 1 };
        headers.extend([names.len() as u32, kind].iter().flat_map(|field| field.to_le_bytes()));
        names.extend(name.bytes().chain([0]));
        let bytes = if flags == 0 { &names } else { bytes };
        let fields = [flags, svma, file.len() as u64, bytes.len() as u64, 0, 1, 0];
        headers.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        file.extend(bytes);
    }
    let table = (file.len() as u64).to_le_bytes();
    file[40..48].copy_from_slice(&table);
    let count = sections.len() as u16 + 2;
    for (at, value) in [(52, 64), (58, 64), (60, count), (62, count - 1)] {
        file[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    file.extend(headers);
    file
}

fuzz_target!(|data: &[u8]| {
    let Some(([kind, share], rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let (table, go_func) = rest.split_at(rest.len() * usize::from(*share) / 255);
    let index = [38, 40, 43][usize::from(kind % 3)];
    let data = moduledata(table, index);
    // The table is in a section of its own, or somewhere in another one.
    let name = if *kind < 128 { ".gopclntab" } else { ".data.rel.ro" };
    let contents = elf(&[
        (".text", 6, TEXT, &[0x90; CODE]),
        (".go.buildinfo", 3, DATA - 16, &[0; 16]),
        (name, 3, TABLE, table),
        (".go.func", 2, GO_FUNC, go_func),
        (".noptrdata", 3, DATA, &data),
    ]);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&contents).unwrap();
    let open_path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let request = BinaryRequest {
        path: open_path.clone(),
        open_path,
        build_id: Vec::new(),
    };
    // There are no segments: addresses are relative to zero.
    let addresses: Vec<u32> = (TEXT as u32..).take(CODE).step_by(4).collect();
    match SYMBOLICATOR.resolve(&request, &addresses) {
        Ok(names) => {
            for (name, address) in names.iter().zip(addresses) {
                let name = name.as_ref().expect("all code has a name");
                assert!(name.symbol_start <= address && !name.inline_chain.is_empty());
                assert!(name.symbol_size.is_none_or(|size| address - name.symbol_start < size));
            }
        }
        Err(error) => assert!(!matches!(error, SymbolError::Crashed { .. }), "{error}"),
    }
});
