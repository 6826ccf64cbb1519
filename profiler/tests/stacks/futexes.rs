//! Which futex a thread waited for: its address, and the file whose data it is in.

use profiler::addr::{Avma, FileOffset};
use profiler::event::{Call, Event, FileId, Mapping, Wait};
use profiler::fact::WaitReason;

use crate::harness::at;
use crate::waits::{FUTEX, born, facts, wait};

/// Two pages of a program, or of memory without a file.
fn mapped(time: u64, start: u64, offset: u64, path: &str) -> Event<'static> {
    Event::Mapping(Mapping {
        at: at(time, 7, 7),
        start: Avma(start),
        len: 0x2000,
        offset: FileOffset(offset),
        file: FileId {
            inode: if path == "//anon" { 0 } else { 5 },
            ..FileId::default()
        },
        // Readable and writable.
        protection: 3,
        path: path.into(),
        ..Mapping::default()
    })
}

fn waits_for(out: u64, address: u64, op: u64) -> Event<'static> {
    Event::Wait(Wait {
        call: Some(Call {
            number: FUTEX,
            arguments: [address, op, 2],
            file: None,
        }),
        ..wait(out, out + 50)
    })
}

#[test]
fn a_futex_in_a_files_data_has_its_distance_from_the_files_start() {
    let events = [
        born(7),
        mapped(110, 0x10_0000, 0, "/bin/prog"),
        // A gap: the data is a page further in memory than in the file.
        mapped(120, 0x10_3000, 0x2000, "/bin/prog"),
        mapped(130, 0x10_5000, 0, "//anon"),
        mapped(140, 0x7f00_0000, 0, "//anon"),
        waits_for(200, 0x10_3040, 128),
        waits_for(300, 0x10_5020, 128),
        waits_for(400, 0x7f00_0010, 128),
        waits_for(500, 0x55_0000, 128),
        // It waits for nothing: it wakes.
        waits_for(600, 0x10_3040, 129),
    ];
    let (tables, facts) = facts(&events);
    let found = facts.iter().map(|wait| {
        let futex = wait.futex?;
        let place = futex
            .place
            .map(|(file, distance)| (&*tables.files[file.index()].path, distance));
        Some((futex.address.0, place))
    });
    let of_program = |distance| Some(("/bin/prog", distance));
    let expected = [
        Some((0x10_3040, of_program(0x3040))),
        // Memory behind a file's data is the data without bytes in the file.
        Some((0x10_5020, of_program(0x5020))),
        Some((0x7f00_0010, None)),
        Some((0x55_0000, None)),
        None,
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert!(facts[..4].iter().all(|wait| wait.reason == WaitReason::Lock));
}
