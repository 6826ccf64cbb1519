//! From the events of page faults to facts, and the same facts again from a kept log.

use std::io::Cursor;
use std::time::Duration;

use profiler::addr::{Avma, FileOffset, Timestamp};
use profiler::block_pages::BlockPages;
use profiler::event::read::LogReader;
use profiler::event::{
    Attempts, Event, Fault, FaultFile, FaultVma, FileId, Mapping, PagesPopulated, PagesRead, TaskExit,
};
use profiler::fact::fault::{Access, FaultClass, FaultFact, MappedFileId, PagesBy, PagesReadFact};
use profiler::fact::replay::log::LogSource;
use profiler::fact::{FactSink, FactSource, Mark, SampleFact, Tables};
use profiler::unwind::NoBinaries;
use profiler_common::fault::{
    BEFORE_UNKNOWN, FAULT_EXCEPTION, FAULT_HAS_FILE, FAULT_HAS_VMA, FAULT_REMOTE, FAULT_STARTED, FaultCounts,
    error_code,
};
use proptest::prelude::*;

use crate::harness::{at, log};

const EXT4: u32 = 0xef53;
const VM_WRITE: u64 = 2;

#[derive(Default, Debug, PartialEq)]
#[allow(clippy::struct_field_names)]
struct Faults {
    faults: Vec<FaultFact>,
    reads: Vec<PagesReadFact>,
    bss: Vec<(Avma, MappedFileId)>,
}

impl FactSink for Faults {
    fn sample(&mut self, _: &Tables, _: &SampleFact) {}
    fn mark(&mut self, _: &Tables, _: &Mark) {}
    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        assert!(fault.thread.index() < tables.threads.len());
        assert!(fault.place.is_none_or(|place| place.file.index() < tables.files.len()));
        self.faults.push(*fault);
    }
    fn bss(&mut self, _: &Tables, fault: &FaultFact, file: MappedFileId) {
        self.bss.push((fault.address, file));
    }
    fn pages_read(&mut self, tables: &Tables, read: &PagesReadFact) {
        assert!(read.file.index() < tables.files.len());
        self.reads.push(*read);
    }
}

/// The facts of these events; a kept log gives the same.
fn facts(events: &[Event<'_>]) -> (Tables, Faults) {
    let replay = |events: &[Event<'_>]| {
        let mut source = LogSource::new(LogReader::new(Cursor::new(log(events))).unwrap(), &NoBinaries);
        let mut facts = Faults::default();
        let tables = source.replay(&mut facts).unwrap();
        let resolved = source.collect_resolved(&tables);
        (tables, facts, resolved)
    };
    let (tables, facts, resolved) = replay(events);
    let kept: Vec<Event<'_>> = events
        .iter()
        .cloned()
        .chain([Event::Resolved(resolved.clone())])
        .collect();
    let (again, same, same_resolved) = replay(&kept);
    assert_eq!((&again, &same), (&tables, &facts));
    assert_eq!(same_resolved, resolved);
    (tables, facts)
}

fn id(major: u32, inode: u64) -> FileId {
    FileId {
        major,
        inode,
        ..FileId::default()
    }
}

fn map(time: u64, start: u64, offset: u64, file: FileId, path: &str, protection: u32) -> Event<'static> {
    Event::Mapping(Mapping {
        at: at(time, 7, 7),
        start: Avma(start),
        len: 0x4000,
        offset: FileOffset(offset),
        file,
        protection,
        flags: 2,
        path: path.as_bytes().to_vec(),
        build_id: Vec::new(),
    })
}

/// A fault of tier 1 or 2.
fn fault(time: u64, address: u64, error_code: u32, flags: u64, file: Option<(FileId, u64)>) -> Fault<'static> {
    Fault {
        at: at(time, 7, 7),
        address: Avma(address),
        start: Some(Timestamp(time - 5)),
        flags: FAULT_STARTED | FAULT_EXCEPTION | FAULT_HAS_VMA | if file.is_some() { FAULT_HAS_FILE } else { 0 },
        vma: Some(FaultVma {
            flags,
            file: file.map(|(file, offset)| FaultFile {
                file,
                offset: FileOffset(offset),
                magic: EXT4,
                mmap_miss: 0,
            }),
        }),
        attempts: Attempts {
            error_code: error_code | error_code::USER,
            ..Attempts::default()
        },
        ..Fault::default()
    }
}

/// A fault of tier 3: time and address.
fn bare(time: u64, address: u64) -> Fault<'static> {
    Fault {
        at: at(time, 7, 7),
        address: Avma(address),
        ..Fault::default()
    }
}

#[test]
fn a_librarys_faults() {
    let library = id(254, 5);
    let events = [
        map(110, 0x10000, 0, library, "/lib/x.so", 5),
        map(111, 0x14000, 0x4000, library, "/lib/x.so", 3),
        map(112, 0x18000, 0, FileId::default(), "//anon", 3),
        Event::PagesRead(PagesRead {
            at: at(150, 7, 7),
            since: Timestamp(148),
            file: library,
            first: 0,
            count: 32,
            in_fault: true,
            order: Some(0),
        }),
        Event::Fault(fault(150, 0x11234, error_code::INSTRUCTION, 4, Some((library, 0x1000)))),
        Event::Fault(fault(
            160,
            0x15010,
            error_code::WRITE,
            VM_WRITE,
            Some((library, 0x5000)),
        )),
        Event::Fault(fault(170, 0x19000, error_code::WRITE, VM_WRITE, None)),
    ];
    let (tables, facts) = facts(&events);
    let [code, data, zeroed] = facts.faults.as_slice() else {
        panic!("{:?}", facts.faults)
    };
    assert_eq!((code.class, code.access), (FaultClass::FileRead, Access::Execute));
    assert_eq!(
        (code.start, code.latency),
        (Timestamp(145), Some(Duration::from_nanos(5)))
    );
    let place = code.place.unwrap();
    assert_eq!((place.offset, place.byte), (FileOffset(0x1000), FileOffset(0x1234)));
    assert_eq!(&*tables.files[place.file.index()].path, "/lib/x.so");
    assert_eq!(data.class, FaultClass::FileCow);
    assert_eq!(data.place.unwrap().file, place.file, "one file, two mappings");
    assert_eq!((zeroed.class, zeroed.place), (FaultClass::Anonymous, None));
    assert_eq!(facts.bss, [(Avma(0x19000), place.file)]);
    assert_eq!((facts.reads[0].file, facts.reads[0].time), (place.file, Timestamp(148)));
    assert_eq!((tables.files.len(), tables.recording.faults_seen), (1, 3));
}

#[test]
fn the_timeline_is_used_without_kernel_data() {
    let (library, log_file) = (id(254, 5), id(254, 6));
    let events = [
        map(110, 0x10000, 0x2000, library, "/lib/x.so", 5),
        map(111, 0x20000, 0, log_file, "/var/log", 3),
        Event::Fault(bare(150, 0x11234)),
        Event::Fault(bare(151, 0x20008)),
        Event::Fault(bare(152, 0x90000)),
        // The address was remapped meanwhile.
        map(160, 0x10000, 0, log_file, "/var/log", 1),
        Event::Fault(bare(170, 0x11234)),
    ];
    let (tables, facts) = facts(&events);
    let actual: Vec<_> = facts
        .faults
        .iter()
        .map(|fault| {
            let place = fault
                .place
                .map(|place| (&*tables.files[place.file.index()].path, place.byte.0));
            (fault.class, fault.access, place)
        })
        .collect();
    let unknown = Access::Unknown;
    assert_eq!(
        actual,
        [
            (FaultClass::FileRead, unknown, Some(("/lib/x.so", 0x3234))),
            (FaultClass::Unknown, unknown, Some(("/var/log", 8))),
            (FaultClass::Unknown, unknown, None),
            (FaultClass::FileRead, unknown, Some(("/var/log", 0x1234))),
        ]
    );
}

#[test]
fn kernel_data_outranks_the_timeline() {
    let (old, new, below) = (id(254, 5), id(254, 6), id(254, 7));
    let remote = Fault {
        flags: FAULT_REMOTE | FAULT_HAS_VMA | FAULT_HAS_FILE,
        ..fault(190, 0x10000, 0, 0, Some((new, 0x3000)))
    };
    let events = [
        map(110, 0x10000, 0, old, "/old", 1),
        map(111, 0x20000, 0, new, "/new", 1),
        map(112, 0x30000, 0x1000, id(0, 99), "/merged/file", 1),
        // It was moved onto the other one, which no record shows.
        Event::Fault(fault(150, 0x10000, 0, 0, Some((new, 0x2000)))),
        Event::Fault(fault(160, 0x30000, 0, 0, Some((below, 0x1000)))),
        Event::Fault(remote),
    ];
    let (tables, facts) = facts(&events);
    let paths: Vec<&str> = facts
        .faults
        .iter()
        .map(|fault| &*tables.files[fault.place.unwrap().file.index()].path)
        .collect();
    assert_eq!(paths, ["/new", "/merged/file", "/new"]);
    assert!(facts.faults[2].remote);
}

#[test]
fn what_a_call_maps_is_found_on_the_time_line() {
    let (one, other) = (id(0, 6), id(0, 7));
    let populated = |time, start, len| {
        Event::PagesPopulated(PagesPopulated {
            at: at(time, 7, 7),
            start: Avma(start),
            len,
        })
    };
    let events = [
        map(110, 0x10000, 0x3000, one, "/one", 1),
        map(111, 0x14000, 0, FileId::default(), "//anon", 3),
        map(112, 0x18000, 0, other, "/other", 1),
        populated(150, 0x12000, 0x7000),
        populated(160, 0x70000, 0x1000),
        populated(170, u64::MAX - 10, u64::MAX),
    ];
    let (tables, facts) = facts(&events);
    let found = facts.reads.iter().map(|read| {
        assert_eq!((read.by, read.order), (PagesBy::Populate, None));
        let path = &*tables.files[read.file.index()].path;
        (path, read.pages.first, read.pages.count)
    });
    assert_eq!(found.collect::<Vec<_>>(), [("/one", 5, 2), ("/other", 0, 1)]);
}

#[test]
fn a_threads_account_balances() {
    let exit = |minor, before| {
        Event::TaskExit(TaskExit {
            at: at(900, 7, 7),
            sum_exec_runtime: 1,
            minor_faults: minor,
            major_faults: 2,
            faults: Some(FaultCounts {
                seen: 5,
                lost: 1,
                filtered: 3,
                failed: 4,
                before,
            }),
            ..TaskExit::default()
        })
    };
    let account = |minor, before| facts(&[exit(minor, before)]).0.threads[0].faults.unwrap();
    assert_eq!(account(20, 12).not_visible(22), Some(1));
    assert_eq!(account(19, 12).not_visible(21), Some(0));
    assert_eq!(account(20, BEFORE_UNKNOWN).not_visible(22), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn hostile_events_never_panic(
        steps in prop::collection::vec((0..5u8, any::<u64>(), 0..5u64, any::<u64>(), any::<u32>(), any::<u32>()), 0..20),
    ) {
        let mut events = Vec::new();
        for (kind, address, inode, offset, flags, bits) in steps {
            let file = id(bits % 3, inode);
            let at = at(u64::from(bits % 500), 7 + flags % 2, 7 + flags % 2);
            events.push(match kind {
                0 => Event::Mapping(Mapping {
                    at, start: Avma(address), len: offset, offset: FileOffset(address), file, protection: flags, flags: bits,
                    path: format!("/{}", inode % 2).into_bytes(), build_id: Vec::new(),
                }),
                1 => Event::PagesRead(PagesRead { at, since: Timestamp(address), file, first: offset, count: bits, in_fault: flags & 1 == 0, order: Some(0),
}),
                4 => Event::PagesPopulated(PagesPopulated { at, start: Avma(address), len: offset }),
                _ => Event::Fault(Fault {
                    at, address: Avma(address), flags, mapped: (bits & 2 == 0).then(|| BlockPages::from_word(offset)),
                    ..fault(500, address, bits, offset, (kind == 2).then_some((file, offset)))
                }),
            });
        }
        facts(&events);
    }
}
