//! Page faults and reads of every kind.

use std::time::Duration;

use profiler::addr::{Avma, FileOffset};
use profiler::event::FileId;
use profiler::fact::fault::{
    Access, Failure, FaultClass, FaultWaits, FilePlace, FileSection, FileSymbol, OtherFaults, PageRange,
};
use profiler::fact::{FaultAccount, FaultFact, MappedFile, MappedFileId, PagesBy, PagesReadFact, StackId, ThreadId};

use super::{MS, Synthetic, at};

/// A minor fault recorded in tier 1: a page of a file that was in memory.
pub fn fault(ms: u64, thread: u32, latency: u64) -> FaultFact {
    let none = Some(Duration::ZERO);
    FaultFact {
        start: at(ms),
        latency: Some(Duration::from_nanos(latency)),
        thread: ThreadId(thread),
        stack: Some(StackId::new(2)),
        address: Avma(0x7f12_3456_7abc),
        access: Access::Read,
        class: FaultClass::FileRead,
        place: Some(FilePlace {
            file: MappedFileId(0),
            offset: FileOffset(0x2000),
            byte: FileOffset(0x2abc),
        }),
        major: false,
        in_kernel: false,
        remote: false,
        failed: None,
        waits: FaultWaits {
            lock: none,
            disk: none,
            other_read: none,
            blocked: none,
            preempted: none,
            reclaim: none,
        },
        retries: Some(0),
        mapped: "0+16".parse().ok(),
        pages_read: 0,
        read_around_off: false,
        others: OtherFaults::default(),
    }
}

pub fn read(ms: u64, thread: u32, file: u32, pages: u32) -> PagesReadFact {
    PagesReadFact {
        time: at(ms),
        thread: ThreadId(thread),
        file: MappedFileId(file),
        pages: PageRange { first: 2, count: pages },
        by: if file == 0 { PagesBy::Fault } else { PagesBy::Call },
        order: Some(0),
    }
}

pub fn files(evil: &[String]) -> Vec<MappedFile> {
    let section = |name: &str, offset, size| FileSection {
        name: name.into(),
        offset,
        size,
        svma: offset + 0x40_0000,
    };
    let symbol = |name: &str, offset, size| FileSymbol {
        name: name.into(),
        offset,
        size,
    };
    let id = |inode| FileId {
        major: 8,
        minor: 1,
        inode,
        generation: 3,
    };
    vec![
        MappedFile {
            id: id(u64::MAX),
            path: "/usr/lib/libdemo.so".into(),
            build_id: (0..20).collect(),
            sections: vec![section(".text", 0x1000, 0x3000), section(".data", 0x8000, 0x1000)],
            symbols: vec![symbol("demo::run", 0x2a00, 0x200), symbol("TABLE", 0x8000, u64::MAX)],
            ..MappedFile::default()
        },
        MappedFile {
            id: id(7),
            path: format!("/tmp/{}", evil[0]).into(),
            deleted: true,
            ..MappedFile::default()
        },
        MappedFile {
            id: id(8),
            ..MappedFile::default()
        },
    ]
}

/// Adds the files, faults that differ in every field, reads, and the kernel's counts.
pub fn add(synthetic: &mut Synthetic, evil: &[String]) {
    synthetic.tables.files = files(evil);
    let place = |file, offset, byte| FilePlace {
        file: MappedFileId(file),
        offset: FileOffset(offset),
        byte: FileOffset(byte),
    };
    let mut slow = FaultFact {
        major: true,
        retries: Some(1),
        pages_read: 32,
        read_around_off: true,
        access: Access::Execute,
        ..fault(10, 0, 5 * MS)
    };
    slow.waits.disk = Some(Duration::from_nanos(4 * MS + 1));
    slow.waits.reclaim = Some(Duration::from_nanos(999));
    let mut other = FaultFact {
        class: FaultClass::FileCow,
        access: Access::Write,
        place: Some(place(0, 0x8000, 0x8001)),
        mapped: None,
        stack: None,
        ..fault(12, 1, 2 * MS)
    };
    other.waits.other_read = Some(Duration::from_nanos(MS));
    let outside = FaultFact {
        start: at(16),
        latency: None,
        waits: FaultWaits::default(),
        retries: None,
        mapped: None,
        place: None,
        address: Avma(u64::MAX),
        class: FaultClass::Anonymous,
        access: Access::Unknown,
        ..fault(16, 0, 0)
    };
    let failed = FaultFact {
        class: FaultClass::Error,
        failed: Some(Failure::Bus),
        in_kernel: true,
        place: Some(place(1, u64::MAX, u64::MAX)),
        ..fault(17, 3, 700)
    };
    let remote = FaultFact {
        class: FaultClass::Huge,
        remote: true,
        place: Some(place(2, 0, 5)),
        ..fault(18, 0, 123_456)
    };
    // Within the one before it, and of the same length.
    let nested = FaultFact {
        address: Avma(1),
        ..remote
    };
    synthetic.faults = vec![slow, other, fault(14, 0, 1_000), outside, failed, remote, nested];
    synthetic.reads = vec![
        read(10, 0, 0, 32),
        read(20, 1, 1, 1),
        PagesReadFact {
            pages: PageRange {
                first: u64::MAX,
                count: u32::MAX,
            },
            ..read(21, 1, 2, 1)
        },
    ];
    synthetic.tables.recording.faults_seen = 6;
    let thread = &mut synthetic.tables.threads[2];
    (thread.minor_faults, thread.major_faults) = (Some(100), Some(3));
    thread.faults = Some(FaultAccount {
        seen: 98,
        lost: 2,
        filtered: 1,
        failed: u64::MAX,
        before: Some(2),
    });
}
