//! Page sets of reads and faults with known answers.

use std::iter;
use std::ops::Range;
use std::time::Duration;

use super::*;
use crate::fault::{FaultClass, FilePlace, Mapped, MappedFile};
use crate::fixtures;

const FILE: MappedFileId = MappedFileId(0);

fn tables() -> Tables {
    let file = |inode, path: &str| MappedFile {
        id: FileId {
            inode,
            ..FileId::default()
        },
        path: path.into(),
        ..MappedFile::default()
    };
    Tables {
        files: vec![file(1, "/a"), file(1, "/a's other name"), file(2, "/b")],
        ..Tables::default()
    }
}

fn read(file: MappedFileId, first: u64, count: u32, in_fault: bool) -> PagesReadFact {
    PagesReadFact {
        time: Timestamp(1),
        thread: ThreadId(0),
        file,
        pages: PageRange { first, count },
        by: if in_fault { PagesBy::Fault } else { PagesBy::Call },
        order: Some(0),
    }
}

/// A fault that began before any of the reads, and mapped these pages and its own.
fn fault(page: u64, mapped: Range<usize>) -> FaultFact {
    FaultFact {
        mapped: Some(Mapped::new(
            iter::once(mapped).collect(),
            usize::try_from(page).unwrap(),
        )),
        ..hiding(page)
    }
}

/// A fault whose mapped pages are unknown.
fn hiding(page: u64) -> FaultFact {
    FaultFact {
        start: Timestamp(0),
        class: FaultClass::FileRead,
        place: Some(FilePlace {
            file: FILE,
            offset: FileOffset(page * PAGE),
            byte: FileOffset(page * PAGE + 5),
        }),
        ..fixtures::fault()
    }
}

fn pages(set: &PageSet) -> Vec<u64> {
    set.iter().collect()
}

#[test]
fn what_no_fault_mapped_is_wasted() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 32, true));
    all.fault(&tables, &fault(3, 0..16));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(
        pages(&file.around()),
        (0..16).filter(|page| *page != 3).collect::<Vec<_>>()
    );
    assert_eq!(pages(&file.wasted().unwrap()), (16..32).collect::<Vec<_>>());
    assert_eq!(pages(&file.faulted), [3]);
    assert_eq!(file.wasted_reads().map(|(_, pages)| pages).collect::<Vec<_>>(), [16]);
    // Another thread maps the rest later.
    all.fault(&tables, &of_another(&fault(20, 16..40)));
    assert!(all.of(&tables, FILE).unwrap().wasted().unwrap().is_empty());
}

#[test]
fn a_large_page_of_the_machine_is_faulted_as_a_whole() {
    for size in [0x1000, 0x4000, 0x1_0000] {
        let (mut tables, mut all) = (tables(), Pages::default());
        tables.recording.page_size = size;
        let more = size / PAGE;
        let table = |page: u64| usize::try_from(page * more).unwrap();
        // Four of the machine's pages are mapped, for a byte at the end of the third.
        let touched = more * 3 - 1;
        all.read(&tables, &read(FILE, 0, u32::try_from(8 * more).unwrap(), true));
        all.fault(&tables, &fault(touched, table(0)..table(4)));
        let file = all.of(&tables, FILE).unwrap();
        assert_eq!(pages(&file.faulted), (2 * more..3 * more).collect::<Vec<_>>());
        assert_eq!(file.around().len(), 3 * more);
        assert_eq!(file.wasted().unwrap().len(), 4 * more);
        // Without the kernel's page table, it is known for the fault's own page.
        all.fault(&tables, &hiding(6 * more));
        let file = all.of(&tables, FILE).unwrap();
        assert_eq!((file.faulted.len(), file.mapped.len()), (2 * more, 5 * more));
    }
}

#[test]
fn waste_is_unknown_if_what_a_fault_mapped_is() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 32, true));
    all.fault(&tables, &fault(3, 0..16));
    assert!(!all.hides_mapped());
    all.fault(&tables, &hiding(20));
    assert!(all.hides_mapped());
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!((file.wasted(), file.wasted_reads().count()), (None, 0));
    assert_eq!((file.mapped.len(), file.not_mapped(&file.read_by_faults)), (17, None));
}

#[test]
fn pages_that_calls_map_are_not_wasted() {
    let (tables, mut all) = (tables(), Pages::default());
    let populated = |first, count| PagesReadFact {
        by: PagesBy::Populate,
        ..read(FILE, first, count, false)
    };
    all.read(&tables, &read(FILE, 0, 32, true));
    all.fault(&tables, &fault(3, 0..8));
    all.read(&tables, &populated(4, 8));
    all.read(&tables, &populated(20, 2));
    all.fault(&tables, &fault(21, 21..24));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.around()), [0, 1, 2, 4, 5, 6, 7, 22, 23]);
    assert_eq!(
        pages(&file.populated()),
        [8, 9, 10, 11, 20],
        "what a fault was for is faulted"
    );
    let wasted: Vec<u64> = (12..20).chain(24..32).collect();
    assert_eq!(pages(&file.wasted().unwrap()), wasted);
    assert!(file.read_by_calls.is_empty(), "nothing was read");
    let sum = file.faulted.len() + file.around().len() + file.populated().len();
    assert_eq!(sum, file.mapped.len());
}

#[test]
fn earlier_reads_belong_to_no_fault() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 4, true));
    let later = FaultFact {
        start: Timestamp(2),
        ..fault(9, 9..10)
    };
    all.fault(&tables, &later);
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.wasted().unwrap()), [0, 1, 2, 3]);
    assert_eq!((file.reads.len(), all.reads_left_out()), (0, 1));
}

/// The fault, by another thread.
fn of_another(fault: &FaultFact) -> FaultFact {
    FaultFact {
        thread: ThreadId(1),
        ..*fault
    }
}

#[test]
fn reads_by_system_calls_are_not_wasted() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 100, false));
    all.fault(&tables, &fault(1, 0..2));
    let file = all.of(&tables, FILE).unwrap();
    assert!(file.wasted().unwrap().is_empty());
    assert_eq!((file.read_by_calls.len(), pages(&file.mapped)), (100, vec![0, 1]));
}

#[test]
fn calls_after_the_first_fault_are_counted() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 100, false));
    all.fault(&tables, &fault(1, 1..2));
    assert_eq!(all.of(&tables, FILE).unwrap().read_later_by_calls, 0);
    all.read(&tables, &read(FILE, 100, 50, false));
    assert_eq!(all.of(&tables, FILE).unwrap().read_later_by_calls, 50);
}

#[test]
fn aliases_are_one_file_and_failed_faults_map_nothing() {
    let (tables, mut all) = (tables(), Pages::default());
    let mut failed = fault(1, 0..4);
    failed.failed = Some(crate::fault::Failure::Bus);
    all.fault(&tables, &failed);
    assert!(all.of(&tables, FILE).is_none());
    all.fault(&tables, &fault(1, 1..2));
    assert_eq!(all.of(&tables, MappedFileId(1)).unwrap().faulted.len(), 1);
    assert!(all.of(&tables, MappedFileId(2)).is_none() && all.of(&tables, MappedFileId(9)).is_none());
}

#[test]
fn spots_contain_only_misses() {
    let (tables, mut all) = (tables(), Pages::default());
    for (page, pages_read) in [(700, 1), (200, 1), (300, 0)] {
        all.fault(
            &tables,
            &FaultFact {
                pages_read,
                read_around_off: true,
                latency: Some(Duration::from_nanos(10)),
                ..fault(page, 0..0)
            },
        );
    }
    let spots: Vec<_> = all.of(&tables, FILE).unwrap().spots().collect();
    let expected = Spot {
        pages: (200, 700),
        faults: 2,
        waited: 0,
        pages_read: 2,
        time: Duration::from_nanos(20),
    };
    assert_eq!(spots, [(&None, &expected)]);
}

proptest::proptest! {
    #[test]
    fn hostile_facts_never_panic(steps in proptest::collection::vec(proptest::prelude::any::<(u32, u64, u32, bool, u64)>(), 0..20)) {
        let (tables, mut all) = (tables(), Pages::default());
        for (file, first, count, is_read, page) in steps {
            let file = MappedFileId(file % 4);
            if is_read {
                all.read(&tables, &read(file, first, count % (1 << 22), page % 2 == 0));
            } else {
                let before = usize::try_from(first % 512).unwrap();
                let mut fault = fault(0, before..before + count as usize % 512);
                fault.place = Some(FilePlace { file, offset: FileOffset(page), byte: FileOffset(first) });
                all.fault(&tables, &fault);
            }
        }
        for (_, file) in all.files() {
            assert!(file.wasted().unwrap().len() <= file.read_by_faults.len());
        }
    }
}

#[test]
fn an_immediately_used_read_is_not_kept() {
    let (tables, mut all) = (tables(), Pages::default());
    // A new page of shared memory is added to the page cache by the fault that needs it.
    all.read(&tables, &read(FILE, 3, 1, true));
    all.fault(&tables, &fault(3, 3..4));
    // Two pages of the second read are unused until a fault touches them.
    all.read(&tables, &read(FILE, 4, 3, true));
    all.fault(&tables, &fault(4, 4..5));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(file.read_by_faults.len(), 4);
    assert_eq!(file.reads.len(), 1);
    let wasted: Vec<_> = file
        .wasted_reads()
        .map(|(read, pages)| (read.pages.first, pages))
        .collect();
    assert_eq!(wasted, [(4, 2)]);
}
