//! The bytes of tables: what is written is read, and what is damaged is refused.

use profiler_common::unwind::{Arch, Cfa, Fp, Row};
use proptest::prelude::*;

use super::{Stats, Table, TableBytesError, TableView};

fn table() -> Table {
    let sp = |pc, words| Row::new(pc, Cfa::Sp, words, Fp::AtCfa, -2, 1);
    Table {
        arch: Arch::X86_64,
        build_id: vec![7; 20],
        first_page: 3,
        pages: vec![0, 2, 4],
        rows: vec![Row::plain(0, Cfa::None), sp(0x10, 1), sp(0, 2), sp(0xffff, 3)],
        stats: Stats {
            functions: 2,
            ..Stats::default()
        },
    }
}

/// Bytes at a multiple of 8, as in a mapping.
fn aligned(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    });
    words.collect()
}

fn read(bytes: &[u8]) -> Result<Table, TableBytesError> {
    let words = aligned(bytes);
    Table::from_bytes(&zerocopy::IntoBytes::as_bytes(words.as_slice())[..bytes.len()])
}

/// The same table with a right checksum around whatever it says.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() > 16 {
        let checksum = crc32fast::hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(read(&table().to_bytes()), Ok(table()));
}

#[test]
fn lookups_find_the_row_before() {
    let table = table();
    for (svma, words) in [
        (0x3_0010, 1),
        (0x3_ffff, 1),
        (0x4_0000, 2),
        (0x4_fffe, 2),
        (0x4_ffff, 3),
    ] {
        assert_eq!(table.lookup(svma).cfa_offset, words, "{svma:#x}");
    }
    for svma in [0, 0x2_ffff, 0x3_0000, 0x3_000f, 0x5_0000, u64::MAX] {
        assert_eq!(table.lookup(svma).rules, Row::plain(0, Cfa::None).rules, "{svma:#x}");
    }
}

#[test]
fn broken_promises_are_refused() {
    type Change = fn(&mut Table);
    let changes: [(Change, &str); 10] = [
        (|table| table.pages = vec![0], "the number of pages"),
        (|table| table.rows.clear(), "the number of rows"),
        (|table| table.pages[0] = 1, "its pages do not hold all rows"),
        (|table| table.pages[2] = 3, "its pages do not hold all rows"),
        (|table| table.pages[1] = 5, "the order of its pages"),
        (|table| table.pages[1] = 0, "a page without a row at its start"),
        (|table| table.rows[2].pc = 1, "a page without a row at its start"),
        (|table| table.rows[1].pc = 0, "the order of its rows"),
        (|table| table.rows[3].rules = 12, "a rule that does not exist"),
        (|table| table.first_page = u64::MAX / 65_536, "its first page"),
    ];
    for (change, why) in changes {
        let mut broken = table();
        change(&mut broken);
        assert_eq!(read(&broken.to_bytes()), Err(TableBytesError::Invalid(why)));
    }
    let with = |at: usize, value: u8| {
        let mut bytes = table().to_bytes();
        bytes[at] = value;
        read(&sealed(bytes))
    };
    assert_eq!(with(0, 0), Err(TableBytesError::NotATable));
    assert_eq!(with(8, 99), Err(TableBytesError::Version(99)));
    assert_eq!(with(16, 3), Err(TableBytesError::Invalid("its processor")));
    assert_eq!(with(20, 65), Err(TableBytesError::Invalid("its build id")));
    let mut damaged = table().to_bytes();
    damaged[130] ^= 1;
    assert_eq!(read(&damaged), Err(TableBytesError::Checksum));
    let words = aligned(&[&[0][..], &table().to_bytes()].concat());
    let shifted = &zerocopy::IntoBytes::as_bytes(words.as_slice())[1..=table().to_bytes().len()];
    assert!(matches!(
        TableView::from_bytes(shifted),
        Err(TableBytesError::Misaligned)
    ));
}

proptest! {
    /// Whatever was changed: refused, or all promises hold, which `check` asks of the result anew.
    #[test]
    fn damage_never_gets_through(
        changes in prop::collection::vec((0usize..200, any::<u8>()), 0..6),
        cut in 0usize..300,
        seal in any::<bool>(),
        svma in any::<u64>(),
    ) {
        let mut bytes = table().to_bytes();
        for (at, value) in changes {
            let len = bytes.len();
            bytes[at % len] = value;
        }
        bytes.truncate(cut.max(8));
        let bytes = if seal { sealed(bytes) } else { bytes };
        if let Ok(table) = read(&bytes) {
            check(&table);
            table.lookup(svma);
            table.lookup(0x3_0011);
            prop_assert_eq!(read(&table.to_bytes()), Ok(table));
        }
    }
}

/// Every promise, in other words than the reader's.
fn check(table: &Table) {
    assert!(table.pages.is_sorted_by(|one, next| one < next));
    assert_eq!(
        (table.pages[0], table.pages.last().copied()),
        (0, u32::try_from(table.rows.len()).ok())
    );
    for (index, row) in table.rows.iter().enumerate() {
        let starts_page = table.pages.iter().any(|start| *start as usize == index);
        assert!(if starts_page {
            row.pc == 0
        } else {
            row.pc > table.rows[index - 1].pc
        });
        assert!(row.is_valid());
    }
}
