//! Synthetic tables, whole and damaged.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::fixtures::{self, DATA, GO_FUNC, TABLE, TEXT};
use super::header::{Header, Version};
use super::pcvalue::PcValues;
use super::{GoFunction, GoTable};
use crate::elf::{ElfBytes, ElfFile, Limits, excerpt};
use crate::patience::patiently;

const VERSIONS: [Version; 4] = [Version::Go1_2, Version::Go1_16, Version::Go1_18, Version::Go1_20];
const ALLOC: u64 = 2;
const DATA_FLAGS: u64 = 3;
const CODE_FLAGS: u64 = 6;

fn of_bytes(table: Vec<u8>, go_func: Option<Vec<u8>>) -> Option<GoTable> {
    let header = Header::parse(&table)?;
    Some(GoTable::new(
        table.into(),
        header,
        header.text,
        go_func.map(ElfBytes::from),
    ))
}

/// The chain at an offset of the first function as `name file:line`, innermost first.
fn chain(table: &GoTable, offset: u64) -> Vec<String> {
    let function = table.function(TEXT + offset).unwrap();
    let frames = table.frames(TEXT + offset, &function);
    let text = |name: Option<String>| name.unwrap_or_else(|| "-".to_owned());
    frames
        .into_iter()
        .map(|frame| format!("{} {}:{}", text(frame.name), text(frame.file), frame.line.unwrap_or(0)))
        .collect()
}

fn assert_inlined(table: &GoTable) {
    assert_eq!(chain(table, 0), ["- a.go:10"]);
    assert_eq!(chain(table, 8), ["main.inner b.go:30", "- a.go:11"]);
    let deepest = ["main.leaf b.go:40", "main.inner b.go:30", "- a.go:11"];
    assert_eq!(chain(table, 12), deepest);
    assert_eq!(chain(table, 15), deepest);
    assert_eq!(chain(table, 23), ["main.inner b.go:31", "- a.go:11"]);
    assert_eq!(chain(table, 39), ["- a.go:12"]);
}

#[test]
fn functions_files_and_lines_of_all_versions() {
    for version in VERSIONS {
        let table = of_bytes(fixtures::table(version), None).unwrap();
        for (offset, range, name) in [
            (0, 0..40, "main.outer"),
            (39, 0..40, "main.outer"),
            (64, 64..74, "main.last.1"),
        ] {
            let GoFunction {
                range: found,
                name: called,
                ..
            } = table.function(TEXT + offset).unwrap();
            assert_eq!(found, TEXT + range.start..TEXT + range.end, "{version:?}");
            assert_eq!(called.as_deref(), Some(name), "{version:?}");
        }
        for outside in [0, TEXT - 1, TEXT + 40, TEXT + 63, TEXT + 74, u64::MAX] {
            assert_eq!(table.function(outside), None, "{version:?} {outside:x}");
        }
        for (behind, end) in [(40, 40), (63, 40), (74, 74), (5000, 74)] {
            let last = table.last_before(TEXT + behind).unwrap();
            assert_eq!(last.range.end, TEXT + end, "{version:?} {behind}");
        }
        assert_eq!(chain(&table, 7), ["- a.go:11"], "{version:?}");
        assert_eq!(chain(&table, 12), ["- a.go:0"], "{version:?}: calls are unknown");
        assert_eq!(chain(&table, 64), ["- -:0"], "{version:?}: no file has this function");
    }
}

#[test]
fn inlined_calls() {
    for version in [Version::Go1_18, Version::Go1_20] {
        assert_inlined(&of_bytes(fixtures::table(version), Some(fixtures::go_func(version))).unwrap());
    }
}

/// Finds what the description of the program locates: in its place, by relocations, and in each layout.
#[test]
fn in_files() {
    for (version, index) in [(Version::Go1_18, 38), (Version::Go1_20, 40), (Version::Go1_20, 43)] {
        let mut table = fixtures::table(version);
        let go_func = fixtures::go_func(version);
        let code = [0x90; 80];
        // Since Go 1.26, and before relocation, the table does not have the start of the code.
        table[24..32].fill(0);
        for (name, is_relocated) in [
            (".gopclntab", false),
            (".data.rel.ro.gopclntab", true),
            (".data.rel.ro", true),
        ] {
            let mut data = fixtures::data(&table, index);
            let relocations = if is_relocated {
                fixtures::relocations(&mut data)
            } else {
                Vec::new()
            };
            let merged = [&[0xff; 64][..], &table].concat();
            let (start, bytes) = if name == ".data.rel.ro" {
                (TABLE - 64, &merged)
            } else {
                (TABLE, &table)
            };
            let file = fixtures::elf(&[
                // Code of another language comes first.
                (".text", CODE_FLAGS, TEXT - 32, &code),
                (".rela.dyn", ALLOC, 0x1000, &relocations),
                (".go.buildinfo", DATA_FLAGS, 0x2000, &[1]),
                (name, DATA_FLAGS, start, bytes),
                (".go.func", ALLOC, GO_FUNC, &go_func),
                (".noptrdata", DATA_FLAGS, DATA, &data),
            ]);
            let elf = ElfFile::from_bytes(Arc::from(file)).unwrap();
            assert_inlined(&GoTable::of(&elf).unwrap());
        }
    }
}

/// What is copied of a file that may disappear is enough for names, and for inlined calls since Go 1.26.
#[test]
fn in_copies() {
    for (data_name, func_name, is_whole) in [(".go.module", ".go.func", true), (".noptrdata", ".rodata", false)] {
        let table = fixtures::table(Version::Go1_20);
        let file = fixtures::elf(&[
            (".text", CODE_FLAGS, TEXT, &[0x90; 80]),
            (".gopclntab", ALLOC, TABLE, &table),
            (func_name, ALLOC, GO_FUNC, &fixtures::go_func(Version::Go1_20)),
            (data_name, DATA_FLAGS, DATA, &fixtures::data(&table, 40)),
        ]);
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.write_all_at(&file, 0).unwrap();
        let copy = to.try_clone().unwrap();
        let limits = Limits {
            bytes: 1 << 20,
            debug: 0,
            code: false,
        };
        patiently(Path::new("copy"), move |progress| excerpt(&from, &to, limits, progress)).unwrap();
        let table = GoTable::of(&ElfFile::open(copy).unwrap()).unwrap();
        if is_whole {
            assert_inlined(&table);
        } else {
            assert_eq!(chain(&table, 12), ["- a.go:0"]);
            assert_eq!(table.function(TEXT).unwrap().name.as_deref(), Some("main.outer"));
        }
    }
}

/// Then the table states the start of the code, or the program has to start at a known entry point.
#[test]
fn without_the_description_of_the_program() {
    let mut table = fixtures::table(Version::Go1_20);
    let found = |table: &[u8], entry: u64| {
        let sections: [(_, _, _, &[u8]); 2] = [
            (".text", CODE_FLAGS, TEXT, &[0x90; 80]),
            (".gopclntab", ALLOC, TABLE, table),
        ];
        let mut file = fixtures::elf(&sections);
        file[24..32].copy_from_slice(&entry.to_le_bytes());
        GoTable::of(&ElfFile::from_bytes(Arc::from(file)).unwrap())
    };
    assert_eq!(chain(&found(&table, 0).unwrap(), 12), ["- a.go:0"]);
    table[24..32].fill(0);
    assert!(found(&table, TEXT).is_none());
    let name = table.windows(5).position(|bytes| bytes == b"main.").unwrap();
    table[name..name + 5].copy_from_slice(b"_rt0_");
    assert_eq!(chain(&found(&table, TEXT).unwrap(), 12), ["- a.go:0"]);
    assert!(found(&table, TEXT + 1).is_none());
    table[0] = 0;
    assert!(found(&table, TEXT).is_none());
}

/// Calls that contain each other end the chain.
#[test]
fn circles_of_calls_end() {
    let mut go_func = fixtures::go_func(Version::Go1_20);
    // The outer call is where the inner one is.
    go_func[12..16].copy_from_slice(&12_u32.to_le_bytes());
    let table = of_bytes(fixtures::table(Version::Go1_20), Some(go_func)).unwrap();
    assert_eq!(
        chain(&table, 12),
        ["main.leaf b.go:40", "main.inner b.go:30", "- b.go:40"]
    );
}

#[test]
fn names_are_limited() {
    let table = fixtures::table(Version::Go1_20);
    let names = usize::try_from(u64::from_le_bytes(table[32..40].try_into().unwrap())).unwrap();
    let long = [&table[..], &[b'a'; 10_000]].concat();
    let table = of_bytes(long, None).unwrap();
    let end = u32::try_from(table.table.len() - names - 9_000).unwrap();
    assert_eq!(table.name(end).unwrap().len(), super::MAX_TEXT);
    assert_eq!(table.name(u32::MAX), None);
}

proptest! {
    #[test]
    fn values_are_read_as_written(ranges in prop::collection::vec((1_u32..5000, any::<i32>()), 1..50), at in any::<u32>()) {
        let bytes = fixtures::values(&ranges);
        let ends: Vec<u32> = ranges.iter().scan(0, |end, (size, _)| { *end += size; Some(*end) }).collect();
        // A difference of zero ends a table, and the first one is to -1.
        prop_assume!(ranges.first().is_some_and(|(_, value)| *value != -1));
        prop_assume!(ranges.windows(2).all(|two| two[0].1 != two[1].1));
        let read = PcValues::default();
        prop_assert_eq!(read.end(&bytes, 1, 1), ends.last().copied());
        let at = at % (ends.last().unwrap() + 10);
        let expected = ends.iter().position(|end| at < *end).map(|index| ranges[index].1);
        prop_assert_eq!(read.at(&bytes, 1, 1, at), expected);
    }

    #[test]
    fn any_bytes(magic in 0_usize..4, rest in prop::collection::vec(any::<u8>(), 0..400), go_func in prop::collection::vec(any::<u8>(), 0..200), svma in any::<u64>()) {
        let table = [&fixtures::table(VERSIONS[magic])[..8], &rest].concat();
        if let Some(table) = of_bytes(table, Some(go_func)) {
            for svma in [svma, TEXT, 0, u64::MAX] {
                if let Some(function) = table.function(svma) {
                    prop_assert!(function.range.contains(&svma));
                    table.frames(svma, &function);
                }
            }
        }
    }

    #[test]
    fn damaged_tables(
        version in 0_usize..4,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        damage_of_calls in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut table = fixtures::table(VERSIONS[version]);
        let mut go_func = fixtures::go_func(VERSIONS[version]);
        for (bytes, damage) in [(&mut table, damage), (&mut go_func, damage_of_calls)] {
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        if is_cut {
            table.truncate(cut.index(table.len()));
        }
        if let Some(table) = of_bytes(table, Some(go_func)) {
            for offset in 0..80 {
                if let Some(function) = table.function(TEXT + offset) {
                    prop_assert!(function.range.contains(&(TEXT + offset)));
                    let frames = table.frames(TEXT + offset, &function);
                    prop_assert!(!frames.is_empty() && frames.len() <= super::MAX_INLINE_DEPTH + 1);
                }
            }
        }
    }

    #[test]
    fn damaged_files(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let table = fixtures::table(Version::Go1_20);
        let mut data = fixtures::data(&table, 40);
        let relocations = fixtures::relocations(&mut data);
        let mut file = fixtures::elf(&[
            (".text", CODE_FLAGS, TEXT, &[0x90; 80]),
            (".rela.dyn", ALLOC, 0x1000, &relocations),
            (".gopclntab", ALLOC, TABLE, &table),
            (".go.func", ALLOC, GO_FUNC, &fixtures::go_func(Version::Go1_20)),
            (".noptrdata", DATA_FLAGS, DATA, &data),
        ]);
        for (at, value) in damage {
            let at = at.index(file.len());
            file[at] = value;
        }
        if let Some(table) = ElfFile::from_bytes(Arc::from(file)).ok().and_then(|elf| GoTable::of(&elf))
            && let Some(function) = table.function(TEXT + 12)
        {
            table.frames(TEXT + 12, &function);
        }
    }
}
