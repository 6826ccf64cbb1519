//! Unwind information made of anything, in an ELF file that is otherwise in order, and tables made of anything.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use profiler::table::{Stats, Table};
use profiler::unwind::table::compile;
use profiler_common::unwind::{Arch, Row};
use symbols::elf::ElfFile;

/// The code is here, as far as the file says.
const TEXT: u64 = 0x1_0000;
const SECTIONS: usize = 5;

/// A file with `.text`, `.eh_frame` and `.debug_frame` (and no code in it): the headers would stop a fuzzer at the door.
fn elf(machine: u16, entry: u64, eh_frame: &[u8], debug_frame: &[u8]) -> Vec<u8> {
    let names = b"\0.text\0.eh_frame\0.debug_frame\0.shstrtab\0";
    let headers = 64 + 56;
    let (eh_at, debug_at) = (headers, headers + eh_frame.len());
    let names_at = debug_at + debug_frame.len();
    let sections_at = (names_at + names.len()).next_multiple_of(8);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|value| file.extend(value.to_le_bytes()));
    let word = |file: &mut Vec<u8>, values: &[u32]| values.iter().for_each(|value| file.extend(value.to_le_bytes()));
    let long = |file: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|value| file.extend(value.to_le_bytes()));
    half(&mut file, &[3, machine]);
    word(&mut file, &[1]);
    long(&mut file, &[entry, 64, sections_at as u64]);
    word(&mut file, &[0]);
    half(&mut file, &[64, 56, 1, 64, SECTIONS as u16, 4]);
    // PT_LOAD, executable: 1 MiB that is not in the file.
    word(&mut file, &[1, 5]);
    long(&mut file, &[0, TEXT, TEXT, 0, 1 << 20, 0x1000]);
    file.extend(eh_frame);
    file.extend(debug_frame);
    file.extend(names);
    file.resize(sections_at, 0);
    let mut section = |name: u32, kind: u32, svma: u64, at: usize, len: usize| {
        word(&mut file, &[name, kind]);
        long(&mut file, &[0, svma, at as u64, len as u64, 0, 1, 0]);
    };
    section(0, 0, 0, 0, 0);
    section(1, 8, TEXT, 0, 1 << 20);
    section(7, 1, 0x1000, eh_at, eh_frame.len());
    section(17, 1, 0, debug_at, debug_frame.len());
    section(30, 3, 0, names_at, names.len());
    file
}

/// The bytes of a table, from its sixteenth on: magic, version and checksum are right.
fn table(rest: &[u8]) -> Vec<u8> {
    let any = Table {
        arch: Arch::X86_64,
        source: [0; 32],
        first_page: 0,
        pages: vec![0, 1],
        rows: vec![Row::default()],
        stats: Stats::default(),
    };
    let checksum = crc32fast::hash(rest);
    [&any.to_bytes()[..12], &checksum.to_le_bytes(), rest].concat()
}

fuzz_target!(|data: &[u8]| {
    let Some(([kind, entry, share], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    if *kind > 250 {
        if let Ok(table) = Table::from_bytes(&table(rest)) {
            assert_eq!(Table::from_bytes(&table.to_bytes()).as_ref(), Ok(&table));
            table.lookup(TEXT);
        }
        return;
    }
    let machine = if kind % 2 == 0 { 62 } else { 183 };
    let (eh_frame, debug_frame) = rest.split_at(rest.len() * usize::from(*share) / 255);
    let entry = if *entry == 0 { 0 } else { TEXT + u64::from(*entry) * 16 };
    let file = elf(machine, entry, eh_frame, debug_frame);
    let elf = ElfFile::from_bytes(Arc::from(file)).unwrap();
    let Ok(table) = compile(&elf) else { return };
    // What is compiled is what the other half takes.
    assert_eq!(Table::from_bytes(&table.to_bytes()).as_ref(), Ok(&table));
    for svma in [0, TEXT - 1, TEXT, TEXT + 100, TEXT + (1 << 20), u64::MAX] {
        table.lookup(svma);
    }
});
