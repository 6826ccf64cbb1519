//! Tables with false contents, and tables that do not fit.

use std::io::Write as _;

use nix::sys::memfd::{MFdFlags, memfd_create};
use profiler_common::config::Config;
use profiler_common::unwind::{BX_SAME, Cfa, Fp};

use super::*;
use crate::hooks::ahead::Loader;
use crate::hooks::btf::Btf;
use crate::hooks::load;
use base::addr::{Avma, FileOffset};
use base::event::{At, FileId, Mapping, PROT_EXEC};
use base::table::{Stats, Table};
use profiler_common::unwind::Arch;

const SIZES: Sizes = Sizes {
    selected: 1,
    awaited: 1,
    threads: 16,
    bulk_bytes: 1 << 16,
    rows: 4096,
    pages: 64,
    ranges: 256,
    spaces: 16,
};

/// Empty tables; `None` if the test is skipped.
fn tables() -> Option<UnwindTables> {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return None;
    }
    let types = Btf::of_kernel().unwrap();
    let (mut ebpf, _) = load::load(Loader::begin(), &Config::NOTHING, SIZES, &types).unwrap();
    Some(UnwindTables::new(&mut ebpf, SIZES).unwrap())
}

fn table(arch: Arch, pages: u32, rows_a_page: u16) -> Vec<u8> {
    let row = |pc| Row::new(pc, Cfa::Sp, 1, Fp::Same, 0, BX_SAME);
    let table = Table {
        arch,
        source: [0; 32],
        first_page: 0,
        pages: (0..=pages).map(|page| page * u32::from(rows_a_page)).collect(),
        rows: (0..pages).flat_map(|_| (0..rows_a_page).map(row)).collect(),
        stats: Stats::default(),
    };
    table.to_bytes()
}

fn memory(bytes: &[u8], seals: SealFlag) -> OwnedFd {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create("table", flags).unwrap());
    file.write_all(bytes).unwrap();
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).unwrap();
    file.into()
}

fn sealed_memory(bytes: &[u8]) -> OwnedFd {
    memory(bytes, SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK)
}

fn file(inode: u64) -> Code {
    Code::File(FileId {
        inode,
        ..FileId::default()
    })
}

fn segment(offset: u64, svma: u64, file_size: u64) -> Segment {
    Segment {
        offset,
        svma,
        file_size,
    }
}

#[test]
fn mutable_or_invalid_tables_are_rejected() {
    let Some(mut tables) = tables() else { return };
    let good = table(ARCH, 2, 10);
    let mut swapped = good.clone();
    swapped.swap(150, 140);
    let foreign = if ARCH == Arch::X86_64 {
        Arch::Aarch64
    } else {
        Arch::X86_64
    };
    let mut disk = tempfile::tempfile().unwrap();
    disk.write_all(&good).unwrap();
    let bad = [
        (memory(&good, SealFlag::F_SEAL_SHRINK), "sealed"),
        (memory(&good, SealFlag::F_SEAL_WRITE), "sealed"),
        (memory(&good, SealFlag::empty()), "sealed"),
        (disk.into(), "memory file"),
        (sealed_memory(&[]), ""),
        (sealed_memory(&good[..100]), "not the bytes"),
        (sealed_memory(&good[..good.len() - 8]), "its length"),
        (sealed_memory(&[0x5a; 5000]), "not the bytes"),
        (sealed_memory(&swapped), ""),
        (sealed_memory(&table(foreign, 2, 10)), "another processor"),
    ];
    for (number, (memory, reason)) in bad.into_iter().enumerate() {
        let error = tables.add(file(9), Vec::new(), memory).unwrap_err().to_string();
        assert!(error.contains(reason), "{number}: {error}");
    }
    assert_eq!(tables.bytes(), 0);
    tables.add(file(9), Vec::new(), sealed_memory(&good)).unwrap();
    assert_eq!(tables.bytes(), 20 * 8 + 2 * 8);
}

#[test]
fn a_table_over_capacity_leaves_the_others() {
    let Some(mut tables) = tables() else { return };
    tables
        .add(file(1), Vec::new(), sealed_memory(&table(ARCH, 8, 500)))
        .unwrap();
    let error = tables
        .add(file(2), Vec::new(), sealed_memory(&table(ARCH, 1, 97)))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("97 rows in 1 page, which exceeds the free capacity of 96 rows and 56 pages"),
        "{error}"
    );
    let error = tables
        .add(file(3), Vec::new(), sealed_memory(&table(ARCH, 64, 1)))
        .unwrap_err();
    assert!(error.to_string().contains("64 rows in 64 pages"), "{error}");
    let many = vec![segment(0, 0, 1); SEGMENTS_LIMIT + 1];
    let error = tables
        .add(file(4), many, sealed_memory(&table(ARCH, 1, 1)))
        .unwrap_err();
    assert!(error.to_string().contains("segments"), "{error}");
    let used = tables.bytes();
    // The first table of a file counts.
    tables
        .add(file(1), vec![segment(1, 1, 1)], sealed_memory(&table(ARCH, 1, 96)))
        .unwrap();
    assert_eq!(tables.bytes(), used);
    tables
        .add(file(5), Vec::new(), sealed_memory(&table(ARCH, 1, 96)))
        .unwrap();
    assert_eq!(tables.rows_used, SIZES.rows);
}

#[test]
fn false_segments_find_no_rows() {
    let Some(mut tables) = tables() else { return };
    let lies = [
        Vec::new(),
        vec![segment(u64::MAX, u64::MAX, u64::MAX)],
        vec![segment(0, u64::MAX, u64::MAX), segment(0, 0, 0)],
        vec![segment(u64::MAX - 4096, 5, 4096)],
        vec![segment(0x1000, 0x1000, 0)],
    ];
    let (mut spaces, mut losses) = (Spaces::default(), Losses::default());
    for (inode, segments) in lies.into_iter().enumerate() {
        let inode = inode as u64 + 1;
        tables
            .add(file(inode), segments, sealed_memory(&table(ARCH, 1, 5)))
            .unwrap();
        for (start, len, offset) in [
            (0x1000 * inode, 0x800, 0x1000),
            (u64::MAX - 0x100 * inode, 0x80, u64::MAX),
        ] {
            spaces.mapped(&Mapping {
                at: At {
                    pid: 5,
                    ..At::default()
                },
                start: Avma(start),
                len,
                offset: FileOffset(offset),
                protection: PROT_EXEC,
                file: FileId {
                    inode,
                    ..FileId::default()
                },
                ..Mapping::default()
            });
        }
    }
    tables.publish(&mut spaces, &mut losses);
    let run = *tables.runs.values().next().unwrap();
    assert_eq!((run.count, losses.total()), (10, 0));
}

#[test]
fn a_true_range_finds_its_rows() {
    let Some(mut tables) = tables() else { return };
    // The second page of the table has the text, which starts in the middle of a kernel page.
    tables
        .add(
            file(1),
            vec![segment(0x1234, 0x234, 0x800)],
            sealed_memory(&table(ARCH, 2, 5)),
        )
        .unwrap();
    let piece = Piece {
        end: 0x7000_2000,
        offset: 0x1000,
        code: file(1),
    };
    let only = |piece: Piece| {
        let mut ranges = tables.ranges(0x7000_1000, piece);
        ranges.dedup_by(|next, last| join(last, next));
        assert_eq!(ranges.len(), 1, "{ranges:?}");
        ranges[0]
    };
    let range = only(piece);
    assert_eq!((range.unwinding, range.first_page, range.pages), (TABLE, 0, 2));
    // The text's first byte, at stated address 0x234, is mapped at 0x70001234.
    assert_eq!(0x7000_1234 - range.bias, 0x234);
    let beyond = Piece {
        offset: 0x2000,
        ..piece
    };
    assert_eq!(only(beyond).unwinding, FRAME_POINTERS);
    let made = Piece {
        code: Code::Made,
        ..piece
    };
    assert_eq!(only(made).unwinding, FRAME_POINTERS);
    let other = Piece { code: file(2), ..piece };
    assert_eq!(only(other).unwinding, PENDING);
    tables.add_none(file(2));
    assert_eq!(tables.ranges(0x7000_1000, other)[0].unwinding, FRAME_POINTERS);
}

/// Both mappings include the page of the file with the end of one segment and the start of the
/// other.
#[test]
fn segments_that_share_a_page_have_their_own_rows() {
    let Some(mut tables) = tables() else { return };
    let packed = vec![segment(0x1000, 0, 0xcb), segment(0x10d0, 0x20d0, 0x400)];
    tables.add(file(1), packed, sealed_memory(&table(ARCH, 20, 5))).unwrap();
    let piece = |end| Piece {
        end,
        offset: 0x1000,
        code: file(1),
    };
    let place = |start: u64, address: u64| {
        let ranges = tables.ranges(start, piece(start + 0x1000));
        assert!(ranges.is_sorted_by(|low, high| low.end == high.start));
        let range = ranges
            .iter()
            .find(|range| range.start <= address && address < range.end);
        address - range.unwrap().bias
    };
    assert_eq!(place(0x7000_0000, 0x7000_0010), 0x10);
    assert_eq!(place(0x7000_2000, 0x7000_20e0), 0x20e0);
}

/// A mapping of process 5 that is not adjacent to those with other numbers.
fn numbered(number: u64) -> Mapping {
    Mapping {
        at: At {
            pid: 5,
            ..At::default()
        },
        start: Avma(0x1000 * (number + 1)),
        len: 0x800,
        protection: PROT_EXEC,
        ..Mapping::default()
    }
}

#[test]
fn a_full_array_removes_stale_ranges_and_counts() {
    let Some(mut tables) = tables() else { return };
    let (mut spaces, mut losses) = (Spaces::default(), Losses::default());
    let mut map = |count: u64| {
        for number in 0..count {
            spaces.mapped(&numbered(number));
        }
        tables.publish(&mut spaces, &mut losses);
        (tables.runs.len(), losses.total())
    };
    assert_eq!(map(200), (1, 0));
    assert_eq!(map(257), (0, 1));
}

#[test]
fn a_space_over_capacity_is_retried() {
    let Some(mut tables) = tables() else { return };
    let (mut spaces, mut losses, began) = (Spaces::default(), Losses::default(), Instant::now());
    let id = profiler_common::space::first_space_id(5);
    // Publishes these ranges at `graces` times the grace period after the start; 0: nothing was
    // mapped.
    let mut publish = |ranges: std::ops::Range<u64>, graces: u32| {
        for number in ranges {
            spaces.mapped(&numbered(number));
        }
        tables.publish_at(began + GRACE * graces, &mut spaces, &mut losses);
        let in_kernel = tables.runs_by_space.get(&id, 0).ok();
        assert_eq!(in_kernel, tables.runs.get(&id).map(|run| run.to_word()));
        (tables.runs.get(&id).map_or(0, |run| run.count), losses.total())
    };
    assert_eq!(publish(0..150, 0), (150, 0));
    // The grace period of the old run has not passed.
    assert_eq!(publish(150..151, 0), (0, 1));
    assert_eq!(publish(0..0, 0), (0, 1));
    assert_eq!(publish(0..0, 1), (151, 1));
    // It does not fit at all, which counts as one more loss, however often it is retried.
    assert_eq!(publish(151..257, 3), (0, 2));
    for graces in 4..9 {
        assert_eq!(publish(0..0, graces), (0, 2));
    }
    spaces.ended(5);
    tables.publish_at(began + GRACE * 10, &mut spaces, &mut losses);
    assert!(tables.waiting.is_empty());
}

#[test]
fn the_walker_sees_each_change() {
    let Some(mut tables) = tables() else { return };
    let (mut spaces, mut losses) = (Spaces::default(), Losses::default());
    let mut publish = |spaces: &mut Spaces| {
        tables.publish(spaces, &mut losses);
        u64::from_ne_bytes(*tables.changes.0.first_chunk().unwrap())
    };
    // The walker starts with 0, before its first lookup.
    assert_eq!(publish(&mut spaces), 1);
    spaces.mapped(&Mapping {
        at: At {
            pid: 5,
            ..At::default()
        },
        len: 0x1000,
        protection: PROT_EXEC,
        ..Mapping::default()
    });
    assert_eq!(publish(&mut spaces), 2);
    assert_eq!(publish(&mut spaces), 2);
    spaces.ended(5);
    assert_eq!(publish(&mut spaces), 3);
}

#[test]
fn neighbours_without_tables_are_one_range() {
    let range = |start, end, unwinding| CodeRange {
        start,
        end,
        unwinding,
        ..CodeRange::default()
    };
    let mut ranges = vec![
        range(0, 1, TABLE),
        range(1, 2, FRAME_POINTERS),
        range(2, 3, FRAME_POINTERS),
        range(3, 4, FRAME_POINTERS),
        range(5, 6, FRAME_POINTERS),
        range(6, 7, PENDING),
        range(7, 8, PENDING),
    ];
    ranges.dedup_by(|next, last| join(last, next));
    let ends: Vec<_> = ranges.iter().map(|range| (range.start, range.end)).collect();
    assert_eq!(ends, [(0, 1), (1, 4), (5, 6), (6, 7), (7, 8)]);
}
