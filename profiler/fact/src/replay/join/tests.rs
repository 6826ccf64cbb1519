//! The rules of the join, one by one.

mod machine;

use super::*;
use crate::fault::{FaultClass, FaultWaits, FilePlace};
use crate::request::{BioFact, BioSource, DeviceId, Operation, RequestCoverage, RequestKind};
use crate::wait::{WaitCall, WakerFact};
use crate::{MappedFile, MappedFileId, fixtures};
use base::addr::FileOffset;

const PAGE: u64 = 4096;

fn tables() -> Tables {
    let file = |inode| MappedFile {
        id: FileId {
            inode,
            ..FileId::default()
        },
        ..MappedFile::default()
    };
    // Two names of one file, and another file.
    Tables {
        files: vec![file(5), file(5), file(6)],
        ..Tables::default()
    }
}

fn us(us: u64) -> Timestamp {
    Timestamp(us * 1000)
}

/// A fault on a page, with start and end, that waited.
fn fault(thread: u32, page: u64, from: u64, to: u64) -> FaultFact {
    FaultFact {
        start: us(from),
        latency: Some(Duration::from_micros(to - from)),
        thread: ThreadId(thread),
        class: FaultClass::FileRead,
        place: Some(FilePlace {
            file: MappedFileId(0),
            offset: FileOffset(page * PAGE),
            byte: FileOffset(page * PAGE + 7),
        }),
        major: true,
        waits: FaultWaits {
            disk: Some(Duration::from_micros(1)),
            other_read: Some(Duration::ZERO),
            ..FaultWaits::default()
        },
        ..fixtures::fault()
    }
}

fn bio(thread: u32, time: u64, first_page: u64, pages: u64) -> BioFact {
    BioFact {
        time: us(time),
        pid: thread,
        tid: thread,
        name: String::new(),
        thread: Some(ThreadId(thread)),
        stack: None,
        sector: first_page * 8,
        bytes: u32::try_from(pages * PAGE).unwrap(),
        file: Some(MappedFileId(1)),
        offset: Some(first_page * PAGE),
        source: BioSource::Cache,
        in_fault: true,
        call: None,
    }
}

fn request(end: u64, bios: Vec<BioFact>) -> RequestFact {
    RequestFact {
        start: bios.iter().map(|bio| bio.time).min().unwrap(),
        end: us(end),
        device: DeviceId(0),
        sector: bios[0].sector,
        bytes: bios.iter().map(|bio| bio.bytes).sum(),
        operation: Operation::Read,
        kind: RequestKind::default(),
        queued: None,
        service: None,
        scheduled: false,
        depth: 1,
        error: 0,
        requeues: 0,
        coverage: RequestCoverage::Full,
        bio_only: false,
        bios,
    }
}

fn wait(thread: u32, reason: WaitReason, from: u64, woken: u64) -> WaitFact {
    let time = Duration::from_micros(woken + 3 - from);
    WaitFact {
        start: us(from),
        end: us(woken + 3),
        thread: ThreadId(thread),
        stack: None,
        off: time,
        queued: Duration::from_micros(3),
        longest: time,
        count: 1,
        reason,
        call: None,
        waker: Some(waker(None, woken, true)),
        coverage: Coverage::Full,
        in_fault: false,
        cpu: None,
        futex: None,
        lock: None,
        priority: None,
    }
}

fn waker(thread: Option<u32>, time: u64, by_interrupt: bool) -> WakerFact {
    WakerFact {
        time: us(time),
        pid: thread.unwrap_or(0),
        tid: thread.unwrap_or(0),
        thread: thread.map(ThreadId),
        stack: None,
        by_interrupt: Some(by_interrupt),
    }
}

/// An input, in order.
enum Step {
    Asked(u32, u64),
    Request(RequestFact),
    Fault(FaultFact),
    Wait(WaitFact),
}

/// Kind, thread and start of the delayed fault or wait, and the request's end or the holder's start; own or not.
type Joined = (EffectKind, u32, u64, u64, bool);

fn joined(steps: &[Step]) -> Vec<Joined> {
    let (tables, mut join) = (tables(), Join::default());
    for step in steps {
        match step {
            Step::Asked(thread, time) => join.asked(ThreadId(*thread), us(*time)),
            Step::Request(request) => {
                for bio in &request.bios {
                    join.asked(bio.thread.unwrap(), bio.time);
                }
                join.request(&tables, request);
            }
            Step::Fault(fault) => join.fault(&tables, fault),
            Step::Wait(wait) => join.wait(&tables, wait),
        }
    }
    join.finish();
    let causes = std::iter::from_fn(|| join.take()).map(|cause| {
        let Effect { kind, thread, start } = cause.effect;
        let (other, own) = match cause.reason {
            Reason::Request(request) => (request.end, request.own),
            Reason::Holder(holder) => (holder.effect.start, false),
        };
        (kind, thread.0, start.0 / 1000, other.0 / 1000, own)
    });
    causes.collect()
}

use EffectKind::{Fault as OfFault, Wait as OfWait};

#[test]
fn a_fault_and_the_request_that_it_began() {
    let steps = [
        Step::Request(request(90, vec![bio(1, 20, 0, 4)])),
        Step::Fault(fault(1, 2, 10, 100)),
    ];
    assert_eq!(joined(&steps), [(OfFault, 1, 10, 90, true)]);
}

#[test]
fn a_request_that_outlasts_its_fault_finds_it() {
    let steps = [
        Step::Asked(1, 20),
        Step::Asked(1, 21),
        Step::Request(request(90, vec![bio(1, 20, 0, 4)])),
        Step::Fault(fault(1, 2, 10, 100)),
        Step::Fault(fault(1, 50, 110, 120)),
        Step::Request(request(150, vec![bio(1, 21, 4, 32)])),
    ];
    assert_eq!(
        joined(&steps),
        [(OfFault, 1, 10, 90, true), (OfFault, 1, 10, 150, true)]
    );
}

#[test]
fn a_fault_waits_for_another_threads_read() {
    let reads = || Step::Request(request(90, vec![bio(2, 5, 0, 32)]));
    assert_eq!(
        joined(&[reads(), Step::Fault(fault(1, 31, 10, 95))]),
        [(OfFault, 1, 10, 90, false)]
    );
    // The page behind it, another file, a fault that began later, one that did not wait: unknown.
    let other = FaultFact {
        place: Some(FilePlace {
            file: MappedFileId(2),
            offset: FileOffset(0),
            byte: FileOffset(0),
        }),
        ..fault(1, 0, 10, 95)
    };
    let quick = FaultFact {
        waits: FaultWaits {
            disk: Some(Duration::ZERO),
            ..fault(1, 0, 10, 95).waits
        },
        ..fault(1, 0, 10, 95)
    };
    for fault in [fault(1, 32, 10, 95), other, fault(1, 0, 91, 95), quick] {
        assert_eq!(joined(&[reads(), Step::Fault(fault)]), []);
    }
}

#[test]
fn a_wait_ends_with_the_latest_request_of_its_own() {
    let reads = |end, time| Step::Request(request(end, vec![bio(1, time, 0, 4)]));
    let wait = |from, woken| Step::Wait(wait(1, WaitReason::Disk, from, woken));
    let steps = [reads(50, 5), reads(60, 6), reads(63, 7), wait(10, 62)];
    assert_eq!(joined(&steps[..2]), []);
    // A completion after the wakeup did not wake.
    assert_eq!(
        joined(&[reads(50, 5), reads(60, 6), wait(10, 62), reads(63, 7)]),
        [(OfWait, 1, 10, 60, true)]
    );
    assert_eq!(
        joined(&[reads(50, 5), reads(60, 6), reads(63, 7), wait(10, 62)]),
        [(OfWait, 1, 10, 60, true)]
    );
    // Long before: something else woke it.
    assert_eq!(joined(&[reads(50, 5), wait(10, 20_000)]), []);
    assert_eq!(joined(&[reads(50, 5), wait(1_051, 1_060)]), []);
}

#[test]
fn a_completion_precedes_its_wakeup() {
    let reads = |thread, end| Step::Request(request(end, vec![bio(thread, 5, 0, 4)]));
    let wait = |from, woken| Step::Wait(wait(1, WaitReason::Disk, from, woken));
    assert_eq!(joined(&[reads(1, 50), wait(51, 60)]), [(OfWait, 1, 51, 50, true)]);
    // A completion during sleep takes precedence.
    let both = [reads(1, 50), reads(1, 55), wait(51, 60)];
    assert_eq!(joined(&both), [(OfWait, 1, 51, 55, true)]);
    // It had already woken the thread from another wait.
    let two = [reads(1, 50), wait(10, 50), wait(52, 60)];
    assert_eq!(joined(&two), [(OfWait, 1, 10, 50, true)]);
}

#[test]
fn unrelated_waits_have_no_request() {
    let reads = || Step::Request(request(50, vec![bio(1, 5, 0, 4)]));
    for reason in WaitReason::ALL.into_iter().filter(|reason| *reason != WaitReason::Disk) {
        assert_eq!(joined(&[reads(), Step::Wait(wait(1, reason, 10, 51))]), []);
    }
    let several = WaitFact {
        count: 2,
        ..wait(1, WaitReason::Disk, 10, 51)
    };
    assert_eq!(joined(&[reads(), Step::Wait(several)]), []);
}

#[test]
fn a_wait_in_a_fault_ends_with_the_request_of_the_faults_page() {
    let in_fault = |from, woken| {
        Step::Wait(WaitFact {
            in_fault: true,
            ..wait(1, WaitReason::Disk, from, woken)
        })
    };
    let steps = [
        Step::Request(request(88, vec![bio(2, 5, 0, 8)])),
        // Its own request, for other pages, completed later.
        Step::Request(request(89, vec![bio(1, 12, 40, 8)])),
        in_fault(14, 90),
        Step::Fault(fault(1, 3, 10, 100)),
    ];
    assert_eq!(
        joined(&steps),
        [
            (OfFault, 1, 10, 89, true),
            (OfFault, 1, 10, 88, false),
            (OfWait, 1, 14, 88, false)
        ]
    );
    // The fault was not recorded.
    let steps = [Step::Request(request(88, vec![bio(1, 12, 0, 8)])), in_fault(14, 90)];
    assert_eq!(joined(&steps), [(OfWait, 1, 14, 88, true)]);
}

#[test]
fn a_read_that_waits_for_anothers_read_of_the_same_file() {
    let waits = |file, by_interrupt| {
        Step::Wait(WaitFact {
            call: Some(WaitCall {
                number: 0,
                name: "read".into(),
                file: Some(MappedFileId(file)),
                path: None,
            }),
            waker: Some(waker(None, 90, by_interrupt)),
            ..wait(1, WaitReason::Disk, 10, 90)
        })
    };
    let reads = |end| Step::Request(request(end, vec![bio(2, 5, 0, 8)]));
    assert_eq!(joined(&[reads(89), waits(0, true)]), [(OfWait, 1, 10, 89, false)]);
    assert_eq!(joined(&[reads(89), waits(2, true)]), []);
    assert_eq!(joined(&[reads(89), waits(0, false)]), []);
}

#[test]
fn a_lock_and_what_held_up_its_holder() {
    let lock = |by: Option<u32>, by_interrupt| {
        Step::Wait(WaitFact {
            waker: Some(waker(by, 200, by_interrupt)),
            ..wait(1, WaitReason::Lock, 50, 200)
        })
    };
    let held = || Step::Fault(fault(2, 3, 10, 100));
    assert_eq!(joined(&[held(), lock(Some(2), false)]), [(OfWait, 1, 50, 10, false)]);
    for step in [
        lock(Some(3), false),
        lock(None, false),
        lock(Some(2), true),
        lock(Some(1), false),
    ] {
        assert_eq!(joined(&[held(), step]), []);
    }
    // The longest one counts, as far as it is within the wait.
    let disk = Step::Wait(wait(2, WaitReason::Disk, 110, 170));
    assert_eq!(
        joined(&[held(), disk, lock(Some(2), false)]),
        [(OfWait, 1, 50, 110, false)]
    );
    let early = Step::Fault(fault(2, 3, 10, 50));
    assert_eq!(joined(&[early, lock(Some(2), false)]), []);
}

#[test]
fn a_thread_that_ended_is_known_for_a_minute() {
    const MINUTE: u64 = 60_000_000;
    let found = |later: u64| {
        let (tables, mut join) = (tables(), Join::default());
        join.fault(&tables, &fault(2, 3, 10, 100));
        join.ended(ThreadId(2), us(150));
        join.ended(ThreadId(3), us(150 + later));
        join.wait(
            &tables,
            &WaitFact {
                waker: Some(waker(Some(2), 200, false)),
                ..wait(1, WaitReason::Lock, 50, 200)
            },
        );
        (join.take().is_some(), join.lanes.contains_key(&ThreadId(2)))
    };
    assert_eq!(found(MINUTE - 1), (true, true));
    assert_eq!(found(MINUTE), (false, false));
}

#[test]
fn memory_is_bounded() {
    let (tables, mut join) = (tables(), Join::default());
    for number in 0..40_000_u64 {
        let thread = u32::try_from(number % 7).unwrap();
        join.asked(ThreadId(thread), us(number));
        join.request(&tables, &request(number + 1, vec![bio(thread, number, number, 4)]));
        let mut held = wait(thread, WaitReason::Disk, number, number + 1);
        held.in_fault = true;
        join.wait(&tables, &held);
        while join.take().is_some() {}
    }
    let (kept, numbers) = join.recent.len();
    assert_eq!((kept, numbers), (1 << 14, 2 << 14));
    assert!(
        join.lanes
            .values()
            .all(|lane| lane.waits.len() <= MAX_WAITS && lane.asked.len() <= MAX_ASKED)
    );
}
