//! What address spaces hold after each change.

use super::*;
use crate::addr::{Avma, FileOffset};

fn mapping(start: u64, len: u64, protection: u32) -> Mapping {
    of_process(5, start, len, protection)
}

fn of_process(pid: u32, start: u64, len: u64, protection: u32) -> Mapping {
    Mapping {
        at: At { pid, ..At::default() },
        start: Avma(start),
        len,
        offset: FileOffset(start / 2),
        protection,
        file: FileId {
            inode: 9,
            ..FileId::default()
        },
        ..Mapping::default()
    }
}

fn ranges(spaces: &Spaces, pid: u32) -> Vec<(u64, u64)> {
    let Some(&id) = spaces.of.get(&pid) else {
        return Vec::new();
    };
    spaces.pieces(id).map(|(start, piece)| (start, piece.end)).collect()
}

#[test]
fn data_mapped_over_code_cuts_it() {
    let mut spaces = Spaces::default();
    spaces.mapped(&mapping(0x1000, 0x9000, 5));
    spaces.mapped(&mapping(0x3000, 0x1000, 3));
    spaces.mapped(&mapping(0x8000, 0x4000, 5));
    let id = spaces.of[&5];
    let pieces: Vec<_> = spaces
        .pieces(id)
        .map(|(start, piece)| (start, piece.end, piece.offset))
        .collect();
    assert_eq!(
        pieces,
        [
            (0x1000, 0x3000, 0x800),
            (0x4000, 0x8000, 0x3800),
            (0x8000, 0xc000, 0x4000)
        ]
    );
    assert!(spaces.covers(5, 0x2fff) && !spaces.covers(5, 0x3000));
    assert!(!spaces.covers(5, 0xc000) && !spaces.covers(6, 0x2000));
    spaces.mapped(&mapping(u64::MAX - 1, 100, 5));
    spaces.mapped(&mapping(0, u64::MAX, 3));
    assert_eq!(ranges(&spaces, 5), []);
}

#[test]
fn a_child_has_its_parents_code_until_it_differs() {
    let mut spaces = Spaces::default();
    spaces.mapped(&mapping(0x1000, 0x1000, 5));
    let born = |child, space| Change::Born {
        parent: 5,
        child,
        space,
    };
    let shared = spaces.of[&5];
    spaces.apply(vec![(Timestamp(1), born(6, 66)), (Timestamp(2), born(7, shared))]);
    spaces.mapped(&of_process(6, 0x5000, 0x1000, 5));
    spaces.mapped(&of_process(7, 0x9000, 0x1000, 5));
    assert_eq!(ranges(&spaces, 5), [(0x1000, 0x2000), (0x9000, 0xa000)]);
    assert_eq!(ranges(&spaces, 6), [(0x1000, 0x2000), (0x5000, 0x6000)]);
    spaces.ended(5);
    assert!(spaces.covers(7, 0x1000) && spaces.take_gone().is_empty());
    spaces.ended(7);
    assert_eq!(spaces.take_gone(), [shared]);
    assert_eq!(spaces.take_changed(), [66]);
}

#[test]
fn exec_keeps_what_it_mapped_itself() {
    let mut spaces = Spaces::default();
    spaces.apply(vec![
        (Timestamp(9), Change::Executed(5, 55)),
        (Timestamp(8), Change::Mapped(mapping(0x7000, 0x1000, 5))),
        (Timestamp(7), Change::Renamed(5)),
        (Timestamp(6), Change::Mapped(mapping(0x1000, 0x1000, 5))),
        (Timestamp(10), Change::Mapped(mapping(0xa000, 0x1000, 5))),
    ]);
    assert_eq!(spaces.of[&5], 55);
    assert_eq!(ranges(&spaces, 5), [(0x7000, 0x8000), (0xa000, 0xb000)]);
    assert_eq!(spaces.take_gone(), [first_space_id(5)]);
}

#[test]
fn our_own_code_is_found_once() {
    let at = At {
        pid: std::process::id(),
        ..At::default()
    };
    let address = our_own_code_is_found_once as fn() as usize as u64;
    let mut spaces = Spaces::default();
    let found = spaces.find(at, address).unwrap();
    assert!(found.protection & PROT_EXEC != 0 && found.file.inode != 0);
    assert_eq!(spaces.find(at, address), None);
    assert_eq!(spaces.find(at, 0x10), None);
}
