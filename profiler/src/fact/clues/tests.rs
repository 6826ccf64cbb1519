//! Clues of faults whose pages are known.

use super::*;
use crate::addr::{Avma, FileOffset, Timestamp};
use crate::event::FileId;
use crate::fact::fault::{FaultWaits, FilePlace, MappedFile, PagesReadFact};
use crate::fact::made_up;

const FILE: MappedFileId = MappedFileId(0);

fn tables() -> Tables {
    let file = MappedFile {
        id: FileId {
            inode: 1,
            ..FileId::default()
        },
        ..MappedFile::default()
    };
    Tables {
        processes: vec![made_up::process(100, "demo")],
        threads: vec![made_up::thread(0, 100)],
        files: vec![file],
        ..Tables::default()
    }
}

fn fault(class: FaultClass, access: Access, page: u64) -> FaultFact {
    FaultFact {
        start: Timestamp(page),
        latency: Some(Duration::from_micros(2)),
        thread: ThreadId(0),
        stack: Some(StackId::new(3)),
        address: Avma(page * PAGE + 5),
        access,
        class,
        place: (class == FaultClass::FileRead).then_some(FilePlace {
            file: FILE,
            offset: FileOffset(page * PAGE),
            byte: FileOffset(page * PAGE + 5),
        }),
        major: false,
        in_kernel: false,
        remote: false,
        failed: None,
        waits: FaultWaits::default(),
        retries: Some(0),
        around: None,
        pages_read: 0,
        read_around_off: false,
    }
}

#[test]
fn a_copy_of_the_page_of_zeroes_is_no_fork_s() {
    let (tables, mut gather) = (tables(), Gather::default());
    gather.fault(&tables, &fault(FaultClass::ZeroPage, Access::Read, 7));
    for page in 6..9 {
        gather.fault(&tables, &fault(FaultClass::Cow, Access::Write, page));
    }
    // The second copy of page 7 is of a page of its own.
    gather.fault(&tables, &fault(FaultClass::Cow, Access::Write, 7));
    let clues = gather.finish(&tables, &Pages::default());
    let copies = Copies {
        process: ProcessId(0),
        stack: Some(StackId::new(3)),
        pages: 3,
        time: Duration::from_micros(6),
    };
    assert_eq!(clues.copies, [copies]);
}

#[test]
fn code_is_counted_by_places_and_windows() {
    let (tables, mut gather) = (tables(), Gather::default());
    for page in [0, 1, 2, 9, 9, 40] {
        gather.fault(&tables, &fault(FaultClass::FileRead, Access::Execute, page));
    }
    gather.fault(&tables, &fault(FaultClass::FileRead, Access::Read, 100));
    let code = gather.finish(&tables, &Pages::default()).code;
    assert_eq!((code[0].pages, code[0].places, code[0].windows), (5, 3, 2));
    assert_eq!(code[0].time, Duration::from_micros(12));
}

#[test]
fn what_was_read_for_nothing_is_its_reader_s() {
    let (tables, mut gather, mut pages) = (tables(), Gather::default(), Pages::default());
    let touch = FaultFact {
        waits: FaultWaits {
            disk: Some(Duration::from_millis(3)),
            ..FaultWaits::default()
        },
        ..fault(FaultClass::FileRead, Access::Read, 4)
    };
    let read = PagesReadFact {
        time: Timestamp(4),
        thread: ThreadId(0),
        file: FILE,
        pages: PageRange { first: 0, count: 32 },
        in_fault: true,
    };
    pages.read(&tables, &read);
    pages.fault(&tables, &touch);
    gather.fault(&tables, &touch);
    let clues = gather.finish(&tables, &pages);
    let wasted = Wasted {
        file: FILE,
        stack: Some(StackId::new(3)),
        pages: 31,
        of: 32,
    };
    assert_eq!(clues.wasted, [wasted]);
    let waits = &clues.waits[0];
    assert_eq!((waits.faults, waits.time), (1, Duration::from_millis(3)));
}
