//! Serialized tables: what is written is read back, and damaged bytes are rejected.

use profiler_common::unwind::{Arch, Cfa, Fp, Row, TABLE_PAGE};
use proptest::prelude::*;

use super::{Stats, Table, TableBytesError, TableView};

/// The last byte of a page.
const LAST: u16 = 511;
const _: () = assert!(LAST as u64 + 1 == TABLE_PAGE);

/// Three pages; no row begins in the second.
fn table() -> Table {
    let sp = |pc, words| Row::new(pc, Cfa::Sp, words, Fp::AtCfa, -2, 1);
    Table {
        arch: Arch::X86_64,
        source: [7; 32],
        first_page: 3,
        pages: vec![0, 2, 2, 4],
        rows: vec![Row::plain(0, Cfa::None), sp(0x10, 1), sp(8, 2), sp(LAST, 3)],
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

/// The same table with a valid checksum for any content.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() > 16 {
        let checksum = crc32fast::hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

#[test]
fn written_data_reads_back() {
    assert_eq!(read(&table().to_bytes()), Ok(table()));
}

#[test]
fn lookups_find_the_preceding_row() {
    let table = table();
    let page = |number: u64| number * TABLE_PAGE;
    for (svma, words) in [
        (page(3) + 0x10, 1),
        (page(4) - 1, 1),
        (page(4), 1),
        (page(5) - 1, 1),
        (page(5), 1),
        (page(5) + 7, 1),
        (page(5) + 8, 2),
        (page(6) - 2, 2),
        (page(6) - 1, 3),
    ] {
        assert_eq!(table.lookup(svma).cfa_offset, words, "{svma:#x}");
    }
    for svma in [0, page(3) - 1, page(3), page(3) + 0xf, page(6), u64::MAX] {
        assert_eq!(table.lookup(svma).rules, Row::plain(0, Cfa::None).rules, "{svma:#x}");
    }
}

#[test]
fn inconsistent_tables_are_rejected() {
    type Change = fn(&mut Table);
    let changes: [(Change, &str); 11] = [
        (|table| table.pages = vec![0], "the number of pages"),
        (|table| table.rows.clear(), "the number of rows"),
        (|table| table.pages[0] = 1, "its pages do not hold all rows"),
        (|table| table.pages[3] = 3, "its pages do not hold all rows"),
        (|table| table.pages[1] = 5, "the order of its pages"),
        (|table| table.pages[1] = 0, "no row at its start"),
        (|table| table.rows[0].pc = 1, "no row at its start"),
        (|table| table.rows[1].pc = 0, "the order of its rows"),
        (|table| table.rows[3].pc = LAST + 1, "a row beyond its page"),
        (|table| table.rows[3].rules = 12, "a rule that does not exist"),
        (|table| table.first_page = u64::MAX / TABLE_PAGE, "its first page"),
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
    /// Any modified table is rejected, or satisfies all invariants, which `check` verifies
    /// independently.
    #[test]
    fn damage_is_always_detected(
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
            table.lookup(3 * TABLE_PAGE + 0x11);
            prop_assert_eq!(read(&table.to_bytes()), Ok(table));
        }
    }
}

/// Every invariant, formulated independently of the reader.
fn check(table: &Table) {
    assert!(table.pages.is_sorted() && table.pages[1] > 0 && table.rows[0].pc == 0);
    assert_eq!(
        (table.pages[0], table.pages.last().copied()),
        (0, u32::try_from(table.rows.len()).ok())
    );
    let addresses: Vec<u64> = table.rows_by_address().map(|(svma, _)| svma).collect();
    assert_eq!(addresses.len(), table.rows.len());
    assert!(addresses.is_sorted_by(|one, next| one < next));
    assert!(table.rows.iter().all(|row| row.pc <= LAST && row.is_valid()));
}
