//! The contents of address spaces after each change.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use base::addr::{Avma, FileOffset};

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
fn data_mapped_over_code_truncates_it() {
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
fn a_child_inherits_its_parents_code() {
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
fn exec_keeps_its_own_mappings() {
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
    assert!(spaces.find(at, address).is_some() && spaces.find(at, 0x10).is_none());
    assert!(
        spaces.of.is_empty() && spaces.absent.is_empty(),
        "of a process that ended nothing is kept"
    );
    spaces.born(1, at.pid, 9);
    let found = spaces.find(at, address).unwrap();
    assert!(found.protection & PROT_EXEC != 0 && found.file.inode != 0);
    assert_eq!(spaces.find(at, address), None);
    assert_eq!(spaces.find(at, 0x10), None);
}

#[test]
fn an_ended_process_is_queried_once() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let at = At {
        pid: child.id(),
        ..At::default()
    };
    let mut spaces = Spaces::default();
    spaces.born(1, at.pid, 9);
    assert_eq!(spaces.find(at, 0x1000), None);
    assert!(spaces.ended.contains(&at.pid) && spaces.absent.is_empty());
    spaces.ended(at.pid);
    assert_eq!(spaces.find(at, 0x2000), None);
    spaces.born(1, at.pid, 10);
    assert!(spaces.ended.is_empty(), "the pid now belongs to another process");
}

/// Size of the model's address spaces in bytes.
const BYTES: usize = 64;

/// The content of each byte of a space: an inode and the byte's offset in the file.
type Bytes = [Option<(u64, u64)>; BYTES];

#[derive(Debug, Clone)]
enum Step {
    Mapped {
        pid: u32,
        start: u64,
        len: u64,
        inode: u64,
        executable: bool,
    },
    Born {
        parent: u32,
        child: u32,
        shares: bool,
    },
    Executed(u32),
    Ended(u32),
    Taken,
}

fn step() -> impl Strategy<Value = Step> {
    let pid = || 1..5_u32;
    prop_oneof![
        6 => (pid(), 0..BYTES as u64, 0..20_u64, 1..4_u64, any::<bool>()).prop_map(|(pid, start, len, inode, executable)| {
            Step::Mapped { pid, start, len: len.min(BYTES as u64 - start), inode, executable }
        }),
        2 => (pid(), pid(), any::<bool>()).prop_map(|(parent, child, shares)| Step::Born { parent, child, shares }),
        1 => pid().prop_map(Step::Executed),
        1 => pid().prop_map(Step::Ended),
        1 => Just(Step::Taken),
    ]
}

/// The same as [`Spaces`], byte by byte.
#[derive(Default)]
struct Model {
    of: FxHashMap<u32, u64>,
    bytes: FxHashMap<u64, Bytes>,
    changed: BTreeSet<u64>,
    gone: Vec<u64>,
}

impl Model {
    fn enter(&mut self, pid: u32, id: u64) {
        self.bytes.entry(id).or_insert([None; BYTES]);
        let old = self.of.insert(pid, id);
        self.tidy(old);
    }

    fn tidy(&mut self, left: Option<u64>) {
        if let Some(left) = left.filter(|left| !self.of.values().any(|id| id == left)) {
            self.bytes.remove(&left);
            self.changed.remove(&left);
            self.gone.push(left);
        }
    }

    fn apply(&mut self, step: &Step, fresh: u64) -> Option<Change> {
        match *step {
            Step::Mapped {
                pid,
                start,
                len,
                inode,
                executable,
            } => {
                let id = self.of.get(&pid).copied().unwrap_or(first_space_id(pid));
                self.enter(pid, id);
                let bytes = self.bytes.get_mut(&id).unwrap();
                let before = *bytes;
                for at in start..start + len {
                    bytes[place(at)] = executable.then_some((inode, 1000 * inode + at));
                }
                if *bytes != before {
                    self.changed.insert(id);
                }
                let mut mapping = of_process(pid, start, len, if executable { 5 } else { 3 });
                mapping.file.inode = inode;
                mapping.offset = FileOffset(1000 * inode + start);
                Some(Change::Mapped(mapping))
            }
            Step::Born { parent, child, shares } => {
                let parents = self.of.get(&parent).copied();
                let space = if shares {
                    parents.unwrap_or(first_space_id(parent))
                } else {
                    fresh
                };
                if parent != child {
                    let copy = parents.filter(|_| !shares).map(|id| self.bytes[&id]);
                    self.enter(child, space);
                    if let Some(copy) = copy {
                        self.bytes.insert(space, copy);
                        self.changed.extend(copy.iter().any(Option::is_some).then_some(space));
                    }
                }
                Some(Change::Born { parent, child, space })
            }
            Step::Executed(pid) => {
                self.enter(pid, fresh);
                Some(Change::Executed(pid, fresh))
            }
            Step::Ended(pid) => {
                let left = self.of.remove(&pid);
                self.tidy(left);
                None
            }
            Step::Taken => None,
        }
    }
}

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

fn bytes_of(spaces: &Spaces, id: u64) -> Bytes {
    let mut bytes = [None; BYTES];
    for (start, piece) in spaces.pieces(id) {
        assert!(start < piece.end, "an empty piece");
        let Code::File(file) = piece.code else {
            panic!("{piece:?}")
        };
        for at in start..piece.end {
            let byte = &mut bytes[place(at)];
            assert_eq!(*byte, None, "pieces overlap");
            *byte = Some((file.inode, piece.offset + (at - start)));
        }
    }
    bytes
}

proptest! {
    #[test]
    fn spaces_match_a_byte_by_byte_model(steps in prop::collection::vec(step(), 0..80)) {
        let (mut spaces, mut model) = (Spaces::default(), Model::default());
        for (number, step) in steps.iter().enumerate() {
            let change = model.apply(step, 1000 + number as u64);
            match step {
                Step::Ended(pid) => spaces.ended(*pid),
                Step::Taken => {
                    prop_assert_eq!(spaces.take_gone(), std::mem::take(&mut model.gone));
                    let reported: BTreeSet<u64> = spaces.take_changed().into_iter().collect();
                    prop_assert!(reported.is_superset(&std::mem::take(&mut model.changed)), "{:?}", reported);
                    prop_assert!(reported.iter().all(|id| model.bytes.contains_key(id)));
                }
                _ => spaces.apply(change.map(|change| (Timestamp(1), change)).into_iter().collect()),
            }
            prop_assert_eq!(&spaces.of, &model.of);
            prop_assert_eq!(spaces.pieces.len(), model.bytes.len());
            for (id, expected) in &model.bytes {
                prop_assert_eq!(bytes_of(&spaces, *id), *expected);
            }
            for (pid, at) in (1..5).flat_map(|pid| (0..BYTES).map(move |at| (pid, at))) {
                let expected = model.of.get(&pid).is_some_and(|id| model.bytes[id][at].is_some());
                prop_assert_eq!(spaces.covers(pid, at as u64), expected);
            }
        }
    }
}
