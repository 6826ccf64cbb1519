//! Page sets of reads and faults with known answers.

use std::time::Duration;

use super::*;
use crate::fault::{FaultClass, FilePlace, MappedFile};
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
        in_fault,
        order: Some(0),
    }
}

/// A fault that began before any of the reads.
fn fault(page: u64, around: Option<(u64, u32)>, retries: Option<u32>) -> FaultFact {
    FaultFact {
        start: Timestamp(0),
        class: FaultClass::FileRead,
        place: Some(FilePlace {
            file: FILE,
            offset: FileOffset(page * PAGE),
            byte: FileOffset(page * PAGE + 5),
        }),
        retries,
        around: around.map(|(first, count)| PageRange { first, count }),
        ..fixtures::fault()
    }
}

fn pages(set: &PageSet) -> Vec<u64> {
    set.iter().collect()
}

#[test]
fn a_repeated_attempt_maps_what_the_first_one_read() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 32, true));
    all.fault(&tables, &fault(3, Some((0, 16)), Some(1)));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.around), (0..16).collect::<Vec<_>>());
    assert_eq!(pages(&file.wasted()), (16..32).collect::<Vec<_>>());
    assert_eq!(pages(&file.faulted), [3]);
    assert!(file.maybe_around.is_empty());
}

#[test]
fn a_single_attempt_looked_around_before_it_read() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 4, true));
    all.fault(&tables, &fault(1, Some((0, 16)), Some(0)));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.maybe_around), (4..16).collect::<Vec<_>>());
    assert_eq!(pages(&file.wasted()), [0, 2, 3]);
    // The next fault finds them.
    all.fault(&tables, &fault(0, Some((0, 16)), Some(0)));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.around), [0, 1, 2, 3]);
    assert!(file.wasted().is_empty());
}

#[test]
fn a_wait_or_major_fault_implies_several_attempts() {
    let tables = tables();
    let mut waited = fault(0, Some((0, 16)), None);
    waited.waits.disk = Some(Duration::from_nanos(1));
    let major = FaultFact {
        major: true,
        ..fault(0, Some((0, 16)), None)
    };
    for repeated in [waited, major] {
        let mut all = Pages::default();
        all.read(&tables, &read(FILE, 0, 8, true));
        all.fault(&tables, &repeated);
        assert_eq!(all.of(&tables, FILE).unwrap().around.len(), 8);
    }
}

#[test]
fn an_unknown_attempt_count_may_map_the_pages_read() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 8, 16, true));
    all.fault(&tables, &fault(3, Some((0, 16)), None));
    let file = all.of(&tables, FILE).unwrap();
    assert!(file.around.is_empty());
    assert_eq!(pages(&file.wasted()), (16..24).collect::<Vec<_>>());
    // A major fault whose repetition was not seen.
    let mut all = Pages::default();
    let major = FaultFact {
        major: true,
        ..fault(3, Some((0, 16)), Some(0))
    };
    all.read(&tables, &read(FILE, 8, 16, true));
    all.fault(&tables, &major);
    let wasted = all.of(&tables, FILE).unwrap().wasted();
    assert_eq!(pages(&wasted), (16..24).collect::<Vec<_>>());
}

#[test]
fn earlier_reads_belong_to_no_fault() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 4, true));
    let later = FaultFact {
        start: Timestamp(2),
        ..fault(9, None, Some(0))
    };
    all.fault(&tables, &later);
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.wasted()), [0, 1, 2, 3]);
    assert_eq!((file.reads.len(), all.reads_left_out()), (0, 1));
}

#[test]
fn later_reads_were_not_mapped_before() {
    let (tables, mut all) = (tables(), Pages::default());
    all.fault(&tables, &fault(20, Some((16, 16)), Some(0)));
    all.read(&tables, &read(FILE, 30, 2, true));
    all.fault(&tables, &fault(40, None, Some(0)));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.maybe_around), (16..30).collect::<Vec<_>>());
    assert_eq!(pages(&file.wasted()), [30, 31]);
}

/// The fault, ending at that time.
fn ends_at(time: u64, fault: FaultFact) -> FaultFact {
    FaultFact {
        latency: Some(Duration::from_nanos(time)),
        ..fault
    }
}

/// The fault, by another thread.
fn of_another(fault: FaultFact) -> FaultFact {
    FaultFact {
        thread: ThreadId(1),
        ..fault
    }
}

#[test]
fn concurrent_faults_may_map_each_others_reads() {
    let (tables, mut all) = (tables(), Pages::default());
    // It waits for what the first thread reads from time 1 on, and ends before it.
    all.fault(&tables, &ends_at(3, of_another(fault(20, Some((16, 16)), Some(1)))));
    all.read(&tables, &read(FILE, 0, 32, true));
    all.fault(&tables, &ends_at(4, fault(5, Some((0, 16)), Some(1))));
    assert!(all.of(&tables, FILE).unwrap().wasted().is_empty());
    // A fault that ended before the read mapped none of its pages.
    let mut all = Pages::default();
    all.fault(&tables, &ends_at(1, of_another(fault(20, Some((16, 16)), Some(0)))));
    all.read(&tables, &read(FILE, 0, 32, true));
    all.fault(&tables, &ends_at(4, fault(5, Some((0, 16)), Some(1))));
    let wasted = all.of(&tables, FILE).unwrap().wasted();
    assert_eq!(pages(&wasted), (16..32).filter(|page| *page != 20).collect::<Vec<_>>());
}

#[test]
fn reads_by_calls_count_from_their_completion() {
    let (tables, mut all) = (tables(), Pages::default());
    all.fault(&tables, &ends_at(1, of_another(fault(40, Some((40, 8)), Some(0)))));
    all.fault(&tables, &ends_at(3, of_another(fault(20, Some((16, 16)), Some(0)))));
    all.read(&tables, &read(FILE, 0, 64, false));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.around), (16..32).collect::<Vec<_>>());
    assert!(file.maybe_around.is_empty());
}

#[test]
fn fault_around_is_kept_after_too_many_faults() {
    let (tables, mut all) = (tables(), Pages::default());
    all.fault(&tables, &ends_at(3, of_another(fault(20, Some((16, 16)), Some(1)))));
    for _ in 0..5000 {
        all.fault(&tables, &ends_at(4, of_another(fault(900, Some((900, 1)), Some(0)))));
    }
    all.read(&tables, &read(FILE, 0, 32, true));
    all.fault(&tables, &ends_at(5, fault(5, Some((0, 16)), Some(1))));
    assert!(all.of(&tables, FILE).unwrap().wasted().is_empty());
}

#[test]
fn reads_by_system_calls_are_not_wasted() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 100, false));
    all.fault(&tables, &fault(1, Some((0, 2)), Some(0)));
    let file = all.of(&tables, FILE).unwrap();
    assert!(file.wasted().is_empty());
    assert_eq!((file.read_by_calls.len(), pages(&file.around)), (100, vec![0, 1]));
}

/// Sets the order of the read's folios.
fn in_folios(read: PagesReadFact, order: Option<u8>) -> PagesReadFact {
    PagesReadFact { order, ..read }
}

#[test]
fn a_folio_may_have_been_mapped_as_a_whole() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &in_folios(read(FILE, 0, 32, true), Some(3)));
    all.fault(&tables, &fault(9, None, Some(0)));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.maybe_mapped()), [8, 10, 11, 12, 13, 14, 15]);
    let others: Vec<u64> = (0..8).chain(16..32).collect();
    assert_eq!(pages(&file.wasted()), others);
    assert_eq!(file.wasted_reads().map(|(_, pages)| pages).collect::<Vec<_>>(), [24]);
    // A range mapped around a fault extends into the next folio.
    all.fault(&tables, &fault(14, Some((12, 5)), Some(0)));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.wasted()), (0..8).chain(24..32).collect::<Vec<_>>());
}

#[test]
fn folios_of_unknown_size_have_the_maximum_size() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &in_folios(read(FILE, 500, 600, true), None));
    all.fault(&tables, &fault(600, None, Some(0)));
    let file = all.of(&tables, FILE).unwrap();
    let unmapped: Vec<u64> = (500..512).chain(1024..1100).collect();
    assert_eq!(pages(&file.wasted()), unmapped);
}

#[test]
fn a_folio_being_read_may_be_mapped_before_its_size_is_known() {
    let (tables, mut all) = (tables(), Pages::default());
    all.fault(&tables, &fault(5, None, Some(0)));
    all.read(&tables, &in_folios(read(FILE, 0, 8, true), Some(3)));
    all.fault(&tables, &fault(20, None, Some(0)));
    assert!(all.of(&tables, FILE).unwrap().wasted().is_empty());
}

#[test]
fn unreported_fault_around_uses_the_default_window() {
    let (mut tables, mut all) = (tables(), Pages::default());
    tables.recording.hooks = vec![base::event::HookStatus {
        noun: "fault".to_owned(),
        hook: "tp_btf/mm_filemap_map_pages".to_owned(),
        refused: Some("unknown".to_owned()),
        remedy: None,
    }];
    all.read(&tables, &read(FILE, 0, 64, true));
    all.fault(&tables, &fault(63, None, Some(1)));
    all.fault(&tables, &fault(20, None, Some(0)));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(pages(&file.wasted()), (0..5).chain(36..48).collect::<Vec<_>>());
}

#[test]
fn calls_after_the_first_fault_are_counted() {
    let (tables, mut all) = (tables(), Pages::default());
    all.read(&tables, &read(FILE, 0, 100, false));
    all.fault(&tables, &fault(1, None, Some(0)));
    assert_eq!(all.of(&tables, FILE).unwrap().read_later_by_calls, 0);
    all.read(&tables, &read(FILE, 100, 50, false));
    assert_eq!(all.of(&tables, FILE).unwrap().read_later_by_calls, 50);
}

#[test]
fn aliases_are_one_file_and_failed_faults_map_nothing() {
    let (tables, mut all) = (tables(), Pages::default());
    let mut failed = fault(1, Some((0, 4)), None);
    failed.failed = Some(crate::fault::Failure::Bus);
    all.fault(&tables, &failed);
    assert!(all.of(&tables, FILE).is_none());
    all.fault(&tables, &fault(1, None, None));
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
                ..fault(page, None, None)
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
                let mut fault = fault(0, Some((first, count)), None);
                fault.place = Some(FilePlace { file, offset: FileOffset(page), byte: FileOffset(first) });
                all.fault(&tables, &fault);
            }
        }
        for (_, file) in all.files() {
            assert!(file.wasted().len() <= file.read_by_faults.len());
        }
    }
}

#[test]
fn an_immediately_used_read_is_not_kept() {
    let (tables, mut all) = (tables(), Pages::default());
    // A new page of shared memory is added to the page cache by the fault that needs it.
    all.read(&tables, &read(FILE, 3, 1, true));
    all.fault(&tables, &fault(3, None, Some(0)));
    // Two pages of the second read are unused until a fault touches them.
    all.read(&tables, &read(FILE, 4, 3, true));
    all.fault(&tables, &fault(4, None, Some(0)));
    let file = all.of(&tables, FILE).unwrap();
    assert_eq!(file.read_by_faults.len(), 4);
    assert_eq!(file.reads.len(), 1);
    let wasted: Vec<_> = file
        .wasted_reads()
        .map(|(read, pages)| (read.pages.first, pages))
        .collect();
    assert_eq!(wasted, [(4, 2)]);
}
