//! Round trips and damage of the bytes in a kept log.

use proptest::prelude::*;

use super::*;
use crate::fault::{FileSection, FileSymbol, FileVariable};
use crate::{Frame, FrameName, Location, MappedFile, ModuleId, ModuleKind, ProcessId, SourceFrame, TruncationReason};
use base::addr::{Avma, FileOffset, KernelOffset, Svma};
use base::event::FileId;

fn tables() -> Tables {
    let module = ModuleId(0);
    let mut tables = Tables::default();
    tables.modules.push(Module {
        kind: ModuleKind::File,
        name: "a.so".into(),
        path: "/lib/a.so".into(),
        file: FileId {
            major: 1,
            minor: 2,
            inode: 3,
            generation: 0,
        },
        build_id: vec![1, 2, 3],
        base_svma: Svma(0x1000),
        deleted: true,
        problem: Some("gone".into()),
    });
    let process = ProcessId(7);
    let locations = [
        Location::Module {
            module,
            svma: Svma(0x1234),
        },
        Location::FileOffset {
            module,
            offset: FileOffset(5),
        },
        Location::Kernel {
            module,
            offset: KernelOffset(u64::MAX),
        },
        Location::Jit {
            module,
            process,
            start: Avma(0x10),
            offset: 3,
            code: 0,
        },
        Location::Jit {
            module,
            process,
            start: Avma(0x10),
            offset: 3,
            code: 9,
        },
        Location::Anonymous {
            module,
            process,
            avma: Avma(0x99),
        },
        Location::Unmapped {
            process,
            avma: Avma(0x98),
        },
        Location::Truncated(TruncationReason::NotCaptured),
    ];
    for (index, location) in (0u32..).zip(locations) {
        tables.frames.push(Frame {
            location,
            is_return_address: index % 2 == 0,
        });
        let parent = index.checked_sub(1).map(StackId::new);
        tables.stacks.push(StackNode {
            parent,
            frame: FrameId(index),
        });
    }
    let source = |function: &str, line| SourceFrame {
        function: function.into(),
        file: Some("a.c".into()),
        line,
    };
    let inline_chain = vec![source("inner", Some(0)), source("outer", None)];
    let name = FrameName {
        symbol: "outer".into(),
        symbol_start: 0x1200,
        symbol_size: Some(0x40),
        inline_chain,
    };
    tables.names.insert(FrameId(0), name);
    tables.files.push(file());
    tables.files.push(MappedFile::default());
    tables
}

fn file() -> MappedFile {
    MappedFile {
        id: FileId {
            major: 254,
            minor: 1,
            inode: u64::MAX,
            generation: 3,
        },
        path: "/lib/a.so".into(),
        deleted: true,
        build_id: vec![9; 20],
        sections: vec![
            FileSection {
                name: ".text".into(),
                offset: 0x1000,
                size: 0x500,
                svma: 0x1000,
            },
            FileSection {
                name: ".data".into(),
                offset: 0x1500,
                size: 0x20,
                svma: 0x2500,
            },
        ],
        symbols: vec![FileSymbol {
            name: "main".into(),
            offset: 0x1200,
            size: 7,
        }],
        variables: vec![FileVariable {
            name: "queue_lock".into(),
            start: 0x4040,
            size: 40,
        }],
    }
}

fn samples() -> EventStacks {
    let mut samples = EventStacks::default();
    samples.push(Timestamp(10), 5, Some(StackId::new(3)));
    samples.push(Timestamp(20), 6, None);
    samples.push(Timestamp(20), 4, Some(StackId::new(0)));
    samples.push(Timestamp(30), 5, Some(StackId::new(6)));
    samples
}

#[test]
fn tables_and_samples_round_trip() {
    let mut resolved = decode(&encode(&tables(), &tables().stacks, &samples(), &FileIndex::default())).unwrap();
    assert_eq!(resolved.tables, tables());
    assert_eq!(resolved.stack(Timestamp(10), 5), Some(Some(StackId::new(3))));
    // An unknown sample does not affect the stacks of others.
    assert_eq!(resolved.stack(Timestamp(15), 5), None);
    assert_eq!(resolved.stack(Timestamp(20), 4), Some(Some(StackId::new(0))));
    assert_eq!(resolved.stack(Timestamp(20), 6), Some(None));
    assert_eq!(resolved.stack(Timestamp(20), 6), None);
    let mapped_as = resolved.mapped_as.clone();
    assert_eq!(mapped_as, [file().id, FileId::default()]);
    // Nor does a missing one.
    assert_eq!(resolved.stack(Timestamp(40), 5), None);
}

proptest! {
    #[test]
    fn damage_never_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5)) {
        let mut bytes = encode(&tables(), &tables().stacks, &samples(), &FileIndex::default());
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Ok(mut resolved) = decode(&bytes) {
            resolved.stack(Timestamp(20), 4);
        }
    }
}

#[test]
fn truncation_is_an_error() {
    let bytes = encode(&tables(), &tables().stacks, &samples(), &FileIndex::default());
    for len in 0..bytes.len() {
        assert!(decode(&bytes[..len]).is_err(), "{len}");
    }
}

/// Version 1 had no files: its logs stay complete.
#[test]
fn the_first_version_can_be_read() {
    let mut old = tables();
    old.files.clear();
    let mut bytes = encode(&old, &old.stacks, &samples(), &FileIndex::default());
    assert_eq!(bytes.pop(), Some(0), "no file");
    bytes[0] = 1;
    assert_eq!(decode(&bytes).unwrap().tables, old);
}
