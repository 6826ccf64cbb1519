//! Every class and every part, from records with known answers; hostile values.

use proptest::prelude::*;

use super::*;
use base::addr::{Avma, FileOffset, Timestamp};
use base::block_pages::BlockPages;
use base::event::{At, Attempts, FaultFile, FileId};
use profiler_common::fault::Waits;

const EXT4: u32 = 0xef53;
const USER: u32 = error_code::USER;
const WRITE: u32 = error_code::WRITE;
const PRESENT: u32 = error_code::PRESENT;

/// A fault with the processor's error code, in a mapping with these flags, of a file system with this magic number
/// (0: no file).
fn fault(error_code: u32, vm_flags: u64, magic: u32) -> Fault<'static> {
    let file = (magic != 0).then_some(FaultFile {
        magic,
        offset: FileOffset(0x3000),
        ..FaultFile::default()
    });
    Fault {
        at: At {
            time: Timestamp(1000),
            pid: 1,
            tid: 1,
        },
        start: Some(Timestamp(400)),
        address: Avma(0x7000_0123),
        flags: FAULT_EXCEPTION | FAULT_STARTED,
        vma: Some(FaultVma { flags: vm_flags, file }),
        attempts: Attempts {
            error_code,
            ..Attempts::default()
        },
        ..Fault::default()
    }
}

fn fact_of(fault: &Fault<'_>) -> FaultFact {
    let found = Found {
        thread: ThreadId(0),
        stack: None,
        memory: fault.vma.map(|vma| Memory::of_vma(&vma, None)),
        place: None,
        mapped: None,
    };
    fact(fault, found)
}

fn class_of(error_code: u32, vm_flags: u64, magic: u32) -> FaultClass {
    fact_of(&fault(error_code, vm_flags, magic)).class
}

#[test]
fn classes_by_mapping_and_access() {
    use FaultClass::*;
    let (private, shared) = (vm::WRITE, vm::WRITE | vm::SHARED);
    let cases = [
        (USER, private, EXT4, FileRead),
        (USER | error_code::INSTRUCTION, 0, EXT4, FileRead),
        (USER | WRITE, private, EXT4, FileCow),
        (USER | WRITE | PRESENT, private, EXT4, FileCow),
        (USER, shared, EXT4, FileRead),
        (USER | WRITE, shared, EXT4, SharedDirty),
        (USER | WRITE | PRESENT, shared, EXT4, SharedDirty),
        (USER, shared, magic::TMPFS, Shmem),
        (USER | WRITE, shared, magic::TMPFS, Shmem),
        (USER, private, magic::TMPFS, Shmem),
        (USER | WRITE, private, magic::TMPFS, FileCow),
        (USER, private, 0, ZeroPage),
        (USER | WRITE, private, 0, Anonymous),
        (USER | WRITE | PRESENT, private, 0, Cow),
        (USER | WRITE, private | vm::HUGETLB, magic::HUGETLBFS, Huge),
        (USER | WRITE, shared, magic::HUGETLBFS, Huge),
        (USER, private | vm::UFFD_MISSING, 0, Userfaultfd),
        (USER | WRITE | PRESENT, private | vm::UFFD_MISSING, 0, Cow),
        (USER, vm::PFNMAP, 0, Unknown),
        (USER | WRITE, shared | vm::IO, EXT4, Unknown),
    ];
    for (error_code, flags, magic, class) in cases {
        assert_eq!(
            class_of(error_code, flags, magic),
            class,
            "{error_code:#x} {flags:#x} {magic:#x}"
        );
    }
}

#[test]
fn the_kernels_action_outranks_the_mapping() {
    let mut huge = fault(USER | WRITE, vm::WRITE, 0);
    huge.flags |= FAULT_HUGE;
    assert_eq!(fact_of(&huge).class, FaultClass::Huge);
    for magic in [0, EXT4] {
        let mut failed = fault(USER, 0, magic);
        failed.flags |= FAULT_FAILED;
        assert_eq!(fact_of(&failed).class, FaultClass::Error);
    }
    let mut swapped = fault(USER, vm::WRITE, 0);
    swapped.flags |= FAULT_MAJOR;
    swapped.waits.disk = 7;
    let swapped = fact_of(&swapped);
    assert_eq!(swapped.class, FaultClass::SwapIn);
    assert_eq!(swapped.waits.disk, Some(Duration::from_nanos(7)), "its own read");
}

#[test]
fn a_blocked_watched_write_is_a_userfaultfd_fault() {
    let flags = vm::WRITE | vm::UFFD_WP;
    let mut written = fault(USER | WRITE | PRESENT, flags, 0);
    assert_eq!(fact_of(&written).class, FaultClass::Cow);
    written.waits.blocked = 5;
    assert_eq!(fact_of(&written).class, FaultClass::Userfaultfd);
    written.flags |= FAULT_HANDLED;
    assert_eq!(
        fact_of(&written).class,
        FaultClass::Cow,
        "tier 1 knows that no attempt was repeated"
    );
    written.attempts.returned = returned::RETRY;
    assert_eq!(fact_of(&written).class, FaultClass::Userfaultfd);
}

#[test]
fn without_an_error_code_the_kernel_flags_count() {
    let mut direct = fault(0, vm::WRITE, 0);
    direct.flags = FAULT_HANDLED | FAULT_STARTED;
    direct.attempts.asked = asked::WRITE;
    let fact = fact_of(&direct);
    assert_eq!(
        (fact.access, fact.class, fact.in_kernel),
        (Access::Write, FaultClass::Anonymous, true)
    );
    direct.attempts.asked = asked::USER | asked::INSTRUCTION;
    let fact = fact_of(&direct);
    assert_eq!((fact.access, fact.in_kernel), (Access::Execute, false));
    // A pin for reading creates a private copy.
    direct.vma = fault(0, vm::WRITE, EXT4).vma;
    direct.attempts.asked = UNSHARE;
    assert_eq!(fact_of(&direct).class, FaultClass::FileCow);
}

#[test]
fn the_third_tier_marks_unknowns() {
    let bare = |flags, magic| {
        let mut bare = fault(0, flags, magic);
        bare.flags = 0;
        bare.start = None;
        fact_of(&bare)
    };
    let read_only = bare(0, EXT4);
    assert_eq!(read_only.class, FaultClass::FileRead, "nothing else can happen there");
    assert_eq!((read_only.access, read_only.latency), (Access::Unknown, None));
    assert_eq!((read_only.waits, read_only.retries), (FaultWaits::default(), None));
    assert_eq!(read_only.start, Timestamp(1000));
    assert!(!read_only.waited());
    assert_eq!(bare(vm::WRITE, EXT4).class, FaultClass::Unknown);
    assert_eq!(bare(vm::WRITE, 0).class, FaultClass::Unknown);
    assert_eq!(bare(vm::WRITE | vm::SHARED, magic::TMPFS).class, FaultClass::Shmem);
    assert_eq!(bare(vm::WRITE, magic::TMPFS).class, FaultClass::Unknown);
    let mut nothing = fault(0, 0, 0);
    nothing.vma = None;
    assert_eq!(fact_of(&nothing).class, FaultClass::Unknown);
}

#[test]
fn a_wait_is_for_its_own_or_another_read() {
    let mut slow = fault(USER, 0, EXT4);
    slow.waits = Waits {
        lock: 1,
        disk: 2,
        blocked: 3,
        preempted: 4,
        reclaim: 5,
    };
    let ns = |ns| Some(Duration::from_nanos(ns));
    let others = fact_of(&slow);
    assert_eq!((others.waits.disk, others.waits.other_read), (ns(0), ns(2)));
    assert_eq!(others.waits.lock, None, "only tier 1 sees it");
    assert_eq!(
        (others.waits.blocked, others.waits.preempted, others.waits.reclaim),
        (ns(3), ns(4), ns(5))
    );
    assert!(
        others.waited() && !others.major,
        "the kernel counts it as minor, but it waited"
    );
    slow.read = 32;
    assert_eq!(
        (fact_of(&slow).waits.disk, fact_of(&slow).waits.other_read),
        (ns(2), ns(0))
    );
    slow.read = 0;
    slow.flags |= FAULT_HANDLED;
    slow.attempts.returned = returned::MAJOR | returned::RETRY;
    slow.attempts.retries = 1;
    let own = fact_of(&slow);
    assert_eq!((own.waits.disk, own.waits.lock, own.retries), (ns(2), ns(1), Some(1)));
    assert_eq!(own.latency, ns(600));
    slow.flags |= FAULT_SWITCH_MISSED;
    let unknown = fact_of(&slow);
    assert_eq!(
        (unknown.waits.disk, unknown.waits.blocked, unknown.waits.preempted),
        (None, None, None)
    );
    assert_eq!(unknown.waits.lock, ns(1), "measured without the scheduler's records");
    assert_eq!(unknown.latency, ns(600));
}

#[test]
fn failures_have_their_reasons() {
    let failed = |returned, signal| {
        let mut failed = fault(USER, 0, 0);
        failed.flags |= FAULT_FAILED;
        failed.attempts.returned = returned;
        failed.signal = signal;
        fact_of(&failed).failed
    };
    assert_eq!(failed(returned::SIGBUS, 0), Some(Failure::Bus));
    assert_eq!(failed(returned::HWPOISON, 0), Some(Failure::Bus));
    assert_eq!(failed(returned::SIGSEGV, 0), Some(Failure::Segv));
    assert_eq!(failed(returned::OOM, 9), Some(Failure::OutOfMemory));
    assert_eq!(failed(0, SIGBUS), Some(Failure::Bus));
    assert_eq!(failed(0, SIGSEGV), Some(Failure::Segv));
    assert_eq!(failed(0, 0), Some(Failure::Other));
    assert_eq!(fact_of(&fault(USER, 0, 0)).failed, None);
}

#[test]
fn a_private_mapping_of_dev_zero_is_ordinary_memory() {
    let zero = MappedFile {
        file: FileId {
            inode: 5,
            ..FileId::default()
        },
        path: "/dev/zero".into(),
        deleted: false,
        build_id: Box::default(),
    };
    let vma = fault(USER | WRITE, vm::WRITE, magic::TMPFS).vma.unwrap();
    assert!(!Memory::of_vma(&vma, Some(&zero)).file);
    let shared = FaultVma {
        flags: vm::WRITE | vm::SHARED,
        ..vma
    };
    assert!(Memory::of_vma(&shared, Some(&zero)).shmem);
}

proptest! {
    #[test]
    fn hostile_records_never_panic(
        words in any::<[u32; 9]>(),
        longs in any::<[u64; 9]>(),
        (has_start, has_vma, has_file) in any::<(bool, bool, bool)>(),
    ) {
        let file = FaultFile { magic: words[0], mmap_miss: words[1], offset: FileOffset(longs[0]), ..FaultFile::default() };
        let fault = Fault {
            at: At { time: Timestamp(longs[1]), pid: words[2], tid: words[2] },
            address: Avma(longs[2]),
            start: has_start.then_some(Timestamp(longs[3])),
            flags: words[3],
            vma: has_vma.then_some(FaultVma { flags: longs[4], file: has_file.then_some(file) }),
            waits: Waits { lock: longs[5], disk: longs[6], blocked: longs[7], preempted: longs[8], reclaim: longs[8] },
            attempts: Attempts { error_code: words[4], asked: words[5], returned: words[6], retries: words[7] },
            mapped: has_start.then(|| BlockPages::from_word(longs[4])),
            read: words[8],
            ..Fault::default()
        };
        let fact = fact_of(&fault);
        prop_assert!(fact.start <= fault.at.time);
        prop_assert_eq!(fact.latency.is_some(), has_start);
        prop_assert_eq!(fact.failed.is_some(), fact.class == FaultClass::Error);
    }
}
