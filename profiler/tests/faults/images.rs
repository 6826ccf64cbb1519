//! Faults in programs that exec maps, and in libraries that a program opens.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::harness::Oracle;
use crate::harness::page::{UNIT, page_size};
use crate::run::{Run, record, scratch};
use crate::tier::{Knows, Tier, in_each_tier};

in_each_tier!(
    a_program_at_any_place,
    a_program_at_its_own_place,
    a_static_program,
    a_library,
    a_library_that_is_gone,
    what_relocations_cost,
);

fn entry(flag: &str) -> Oracle {
    Oracle::c_with("faults/entry.c", &format!("entry{flag}"), &[flag])
}

fn table() -> Oracle {
    Oracle::c_with("faults/table.c", "libtable.so", &["-shared", "-fPIC", "-Wl,--build-id"])
}

fn pointers() -> Oracle {
    Oracle::c_with("faults/pointers.c", "libpointers.so", &["-shared", "-fPIC"])
}

/// Oracles that these tests build with special options.
pub fn oracles() -> impl Iterator<Item = Oracle> {
    ["-pie", "-no-pie", "-static"]
        .map(entry)
        .into_iter()
        .chain([table(), pointers()])
}

/// Expects the first fault in the executable's code at its entry point. The kernel mapped the code in exec, before any hook saw a mapping.
fn expect_entry(tier: Tier, flag: &str) {
    let oracle = entry(flag);
    let Some(run) = record(tier, &oracle, [""; 0]) else {
        return;
    };
    run.expect_accounts();
    let number = |key| run.said.number(key);
    let [pid, entry, start, end] = ["pid", "entry", "start", "end"].map(number);
    let in_code = |row: &&crate::rows::Row| u64::from(row.pid) == pid && (start..end).contains(&row.address);
    let first = run.rows.iter().find(in_code).expect("the first instruction is a fault");
    assert_eq!(first.address, entry, "{first:?}");
    assert_eq!(first.path(), oracle.path.to_str(), "{first:?}");
    assert_eq!(
        first.offset,
        Some(number("offset") + (entry & !(UNIT - 1)) - start),
        "{first:?}"
    );
    assert_eq!(first.inode, Some(number("inode")), "{first:?}");
    assert_eq!(first.function.as_deref(), Some("_start"), "{first:?}");
    assert_eq!(first.build_id, build_id(&oracle.path), "{first:?}");
    assert_eq!(
        (first.section.as_deref(), first.symbol.as_deref()),
        (Some(".text"), Some("_start")),
        "{first:?}"
    );
    let access = if tier.knows(Knows::Access) {
        "execute"
    } else {
        "unknown"
    };
    assert_eq!(first.access, access, "{first:?}");
    assert!(tier.takes_class("file-read", &first.class), "{first:?}");
    assert!(first.stack_complete == Some(true) && !first.in_kernel, "{first:?}");
}

/// The build id of a file according to binutils.
fn build_id(file: &Path) -> Option<String> {
    let notes = Command::new("readelf").arg("-n").arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&notes.stdout).into_owned();
    Some(text.split("Build ID: ").nth(1)?.split_whitespace().next()?.to_owned())
}

fn a_program_at_any_place(tier: Tier) {
    expect_entry(tier, "-pie");
}

fn a_program_at_its_own_place(tier: Tier) {
    expect_entry(tier, "-no-pie");
}

fn a_static_program(tier: Tier) {
    expect_entry(tier, "-static");
}

/// Records a program that touches a copy of the library.
fn with_library(tier: Tier, more: &[&str]) -> Option<Run> {
    let folder = scratch();
    let library = table().copied(&folder.path().join("libtable.so"));
    let arguments = [library.path.to_str().unwrap()].into_iter().chain(more.iter().copied());
    let run = record(tier, &Oracle::c("faults/library"), arguments)?;
    run.expect_phases();
    run.expect_accounts();
    assert_eq!(library.path.exists(), more.is_empty());
    Some(run)
}

fn a_library(tier: Tier) {
    let Some(run) = with_library(tier, &[]) else { return };
    for (symbol, section) in [("known_table", ".rodata"), ("known_data", ".data")] {
        for row in run.rows_of(run.said.phase(symbol)) {
            assert_eq!(row.symbol.as_deref(), Some(symbol), "{row:?}");
            assert_eq!(row.section.as_deref(), Some(section), "{row:?}");
            assert!(row.build_id.is_some(), "{row:?}");
        }
    }
}

/// The path and identity of a deleted library remain; its contents, and with them its sections, may be inaccessible.
fn a_library_that_is_gone(tier: Tier) {
    with_library(tier, &["unlink"]);
}

/// Expects as many pages copied by relocations as the kernel counts as private and dirty.
fn what_relocations_cost(tier: Tier) {
    let folder = scratch();
    let library = pointers().copied(&folder.path().join("libpointers.so"));
    // Pages that are not on the disk yet would also count as dirty.
    std::fs::File::open(&library.path).unwrap().sync_all().unwrap();
    let Some(run) = record(tier, &Oracle::c("faults/relocated"), [&library]) else {
        return;
    };
    run.expect_accounts();
    let dirty = run.said.number("private_dirty") / page_size();
    // The library's addresses, and a few pages of the loader's.
    let least = (256 << 10) / page_size();
    assert!((least..least + 16).contains(&dirty), "{dirty} dirty pages");
    let ours = run.rows.iter().filter(|row| row.path() == library.path.to_str());
    let copied: BTreeSet<_> = ours
        .filter(|row| row.class == "file-cow" || (!tier.knows(Knows::Class) && row.class == "unknown"))
        .map(|row| row.address & !(page_size() - 1))
        .collect();
    if tier.knows(Knows::Class) {
        assert_eq!(copied.len() as u64, dirty);
    } else {
        assert!(
            copied.len() as u64 <= dirty || copied.is_empty(),
            "{} of {dirty}",
            copied.len()
        );
    }
}
