//! Damaged files cause no panic and no table that violates an invariant.

use profiler::unwind::table::{Table, compile};
use proptest::prelude::*;
use symbols::elf::ElfFile;

use super::build::bytes;

/// If a table is built, the privileged helper accepts it.
fn try_compile(file: Vec<u8>) {
    let Ok(elf) = ElfFile::from_bytes(file.into()) else {
        return;
    };
    let Ok(table) = compile(&elf) else { return };
    let words = table.to_bytes();
    // Vectors of this size start at a multiple of 8 with every allocator in use.
    assert_eq!(Table::from_bytes(&words), Ok(table));
}

#[test]
fn damaged_files_do_not_panic() {
    for (compiler, source) in [("gcc", "x86_64.s"), ("aarch64-linux-gnu-gcc", "arm64.s")] {
        let Some(whole) = bytes(compiler, source, &[]) else {
            continue;
        };
        let elf = ElfFile::from_bytes(whole.clone().into()).unwrap();
        let section = elf.section(".eh_frame").unwrap().bytes;
        let start = whole
            .windows(section.len())
            .position(|bytes| *bytes == *section)
            .unwrap();
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 2_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let change = (0..section.len(), any::<u8>());
        let changes = (
            prop::collection::vec(change, 1..8),
            prop::option::of(0..whole.len()),
            any::<u8>(),
        );
        let result = runner.run(&changes, |(changes, anywhere, value)| {
            let mut file = whole.clone();
            for (at, value) in changes {
                file[start + at] = value;
            }
            if let Some(at) = anywhere {
                file[at] = value;
            }
            try_compile(file);
            Ok(())
        });
        result.unwrap();
    }
}
