//! fault: a page fault of a recorded thread, from its exception to its completion.
//!
//! The kernel handles one fault in one or more attempts (`VM_FAULT_RETRY`), and a fault may begin inside another one, when the
//! kernel copies from or to user memory. One record is one fault, sent when it is over.

use crate::RecordHeader;
use crate::stack::Stacks;

/// [`FaultBody::start`] is known.
pub const FAULT_STARTED: u32 = 1;
/// The exception was seen: `start` is its time, and `error_code` is the processor's.
pub const FAULT_EXCEPTION: u32 = 2;
/// [`FaultBody::vma`] was read when the fault was handled.
pub const FAULT_HAS_VMA: u32 = 4;
/// The mapping shows a file: inode, device, offset and magic number are valid.
pub const FAULT_HAS_FILE: u32 = 8;
/// The mapping belongs to another process's memory (`process_vm_readv`, ptrace, the arguments of exec).
pub const FAULT_REMOTE: u32 = 16;
/// The kernel counts it as a major fault.
pub const FAULT_MAJOR: u32 = 32;
/// It failed: the kernel counts it neither as minor nor as major.
pub const FAULT_FAILED: u32 = 64;
/// `handle_mm_fault` was watched: `asked`, `returned`, `retries` and `waits.lock` are valid.
pub const FAULT_HANDLED: u32 = 128;
/// The mapping could not be asked for: its lock was busy.
pub const FAULT_VMA_BUSY: u32 = 256;
/// A huge page (2 MiB on x86-64) was mapped.
pub const FAULT_HUGE: u32 = 512;
/// The page was not mapped around: the file system's fault function was asked for it (`filemap_fault`).
pub const FAULT_FILEMAP: u32 = 1024;
/// The kernel counts more switches of the thread than were seen meanwhile: `waits.disk`, `blocked` and `preempted` lack something.
pub const FAULT_SWITCH_MISSED: u32 = 2048;
/// Kernel side only: an attempt is under way.
pub const FAULT_INSIDE: u32 = 1 << 30;
/// Kernel side only: the fault is under way.
pub const FAULT_OPEN: u32 = 1 << 31;

/// Bits of the processor's error code for a page fault on x86-64 (`arch/x86/include/asm/trap_pf.h`).
pub mod error_code {
    /// The page was there, but not for this access.
    pub const PRESENT: u32 = 1;
    /// A write.
    pub const WRITE: u32 = 2;
    /// In user mode.
    pub const USER: u32 = 4;
    /// An instruction was fetched.
    pub const INSTRUCTION: u32 = 16;
}

/// Bits that `handle_mm_fault` is asked with (`enum fault_flag` of `include/linux/mm_types.h`).
pub mod asked {
    /// A write.
    pub const WRITE: u32 = 1;
    /// Not the first attempt.
    pub const TRIED: u32 = 0x20;
    /// In user mode.
    pub const USER: u32 = 0x40;
    /// Not the current task's memory.
    pub const REMOTE: u32 = 0x80;
    /// An instruction was fetched.
    pub const INSTRUCTION: u32 = 0x100;
}

/// Bits that `handle_mm_fault` returns (`enum vm_fault_reason` of `include/linux/mm_types.h`).
pub mod returned {
    /// Out of memory.
    pub const OOM: u32 = 1;
    /// Beyond the end of the file, or the file could not be read.
    pub const SIGBUS: u32 = 2;
    /// It started a read.
    pub const MAJOR: u32 = 4;
    /// The memory is broken.
    pub const HWPOISON: u32 = 0x10;
    /// As above, in a huge page.
    pub const HWPOISON_LARGE: u32 = 0x20;
    /// Not allowed.
    pub const SIGSEGV: u32 = 0x40;
    /// The attempt gave up its locks; there will be another.
    pub const RETRY: u32 = 0x400;
    /// A huge page was not to be had.
    pub const FALLBACK: u32 = 0x800;
    /// Over, with the locks given up.
    pub const COMPLETED: u32 = 0x4000;
    /// `VM_FAULT_ERROR`
    pub const ERROR: u32 = OOM | SIGBUS | SIGSEGV | HWPOISON | HWPOISON_LARGE | FALLBACK;
}

/// The mapping that a fault is in.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Vma {
    /// Inode of the file, with [`FAULT_HAS_FILE`].
    pub inode: u64,
    /// Where the faulting page starts in the file, in bytes.
    pub offset: u64,
    /// `VM_*` (include/linux/mm.h).
    pub flags: u64,
    /// The file system's device as the kernel numbers it: major << 20 | minor.
    pub device: u32,
    /// The file system's magic number (include/uapi/linux/magic.h).
    pub magic: u32,
    /// `file->f_ra.mmap_miss`, lower 16 bits: above 100 the kernel does not read around a fault.
    pub mmap_miss: u32,
    /// `inode->i_generation`: tells files apart that had the same inode number one after another.
    pub generation: u32,
}

/// What a fault waited for, in ns. The parts do not overlap, but for `reclaim`, which holds waits of its own.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Waits {
    /// Outside of `handle_mm_fault`: mostly for the lock of the address space.
    pub lock: u64,
    /// Switched out for I/O (`in_iowait`), until it ran again.
    pub disk: u64,
    /// Switched out for something else.
    pub blocked: u64,
    /// Switched out although it could have run.
    pub preempted: u64,
    /// In direct reclaim or compaction.
    pub reclaim: u64,
}

/// What a fault's record tells beside who, when and where.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct FaultBody {
    /// The address that was touched.
    pub address: u64,
    /// When it began (`CLOCK_MONOTONIC` in ns), with [`FAULT_STARTED`].
    pub start: u64,
    /// The mapping, with [`FAULT_HAS_VMA`].
    pub vma: Vma,
    /// What it waited for.
    pub waits: Waits,
    /// First page that fault-around mapped, counted in the file.
    pub around_first: u64,
    /// `FAULT_*`
    pub flags: u32,
    /// [`error_code`]s
    pub error_code: u32,
    /// All that its attempts were [`asked`].
    pub asked: u32,
    /// All that its attempts [`returned`].
    pub returned: u32,
    /// Attempts after the first.
    pub retries: u32,
    /// Pages in the range that fault-around mapped: those of it that were in memory.
    pub around: u32,
    /// Pages that were read into the page cache meanwhile.
    pub read: u32,
    /// Signal that it ended with; 0: none.
    pub signal: u32,
}

/// Starts a fault's record; the copy of the stack follows. The header's time is that of the fault's end.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct FaultHead {
    /// Kind [`crate::RecordKind::Fault`].
    pub header: RecordHeader,
    /// What happened.
    pub body: FaultBody,
    /// Where the thread was.
    pub stacks: Stacks,
}

/// Neighbouring pages that a recorded thread brought into the page cache.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct PagesRead {
    /// Kind [`crate::RecordKind::PagesRead`]; the time is that of the record.
    pub header: RecordHeader,
    /// Which pages.
    pub run: ReadRun,
}

/// Neighbouring pages of a file.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct ReadRun {
    /// When the first one came (`CLOCK_MONOTONIC` in ns).
    pub since: u64,
    /// Inode of the file.
    pub inode: u64,
    /// First page, counted in the file.
    pub first: u64,
    /// Device, as in [`Vma::device`].
    pub device: u32,
    /// How many pages; 0: there is no run.
    pub count: u32,
    /// 1: within a page fault; 0: by a system call.
    pub in_fault: u16,
    /// Binary logarithm of the pages of each folio: all folios of a run are equally large, and lie at multiples of their size.
    pub order: u16,
    /// As [`Vma::generation`].
    pub generation: u32,
}

/// A fault under way, as the kernel side keeps it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct Pending {
    /// What is known so far.
    pub body: FaultBody,
    /// When the thread was switched out; 0: it runs, or that wait is accounted for.
    pub out_since: u64,
    /// When an attempt gave up its locks.
    pub left: u64,
    /// When direct reclaim or compaction began; 0: none is under way.
    pub reclaim_since: u64,
    /// The thread's switches that the kernel had counted when it began.
    pub switches_before: u64,
    /// Switches that were seen since.
    pub switches: u32,
    /// Why it was switched out: [`OUT_PREEMPTED`], [`OUT_DISK`] or [`OUT_BLOCKED`].
    pub out_kind: u32,
}

/// [`Pending::out_kind`]: it could have run on.
pub const OUT_PREEMPTED: u32 = 0;
/// [`Pending::out_kind`]: for I/O.
pub const OUT_DISK: u32 = 1;
/// [`Pending::out_kind`]: for something else.
pub const OUT_BLOCKED: u32 = 2;

/// Faults of a thread, counted by what became of them.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct FaultCounts {
    /// Sent, but for failed ones.
    pub seen: u64,
    /// The ring was full.
    pub lost: u64,
    /// Not asked for (`--faults`).
    pub filtered: u64,
    /// Failed, whether sent or not: the kernel does not count them.
    pub failed: u64,
    /// What the kernel had counted before the first one that was watched; [`BEFORE_UNKNOWN`]: none was watched yet.
    pub before: u64,
}

/// [`FaultCounts::before`]: no fault of the thread was watched yet.
pub const BEFORE_UNKNOWN: u64 = u64::MAX;

/// The faults of a thread, as the kernel side keeps them.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
pub struct ThreadFaults {
    /// The innermost fault that is under way.
    pub inner: Pending,
    /// The fault that it interrupts.
    pub outer: Pending,
    /// What became of the earlier ones.
    pub counts: FaultCounts,
    /// Pages that were read and not told yet.
    pub run: ReadRun,
    /// Where the thread was at the fault that is being sent.
    pub stacks: Stacks,
    /// Bytes of its stack that are left to copy.
    pub want: u64,
}

/// Which faults are recorded: all.
pub const FAULTS_ALL: u32 = 1;
/// Which faults are recorded: those in mappings of files.
pub const FAULTS_FILE: u32 = 2;
/// Which faults are recorded: those that the kernel counts as major, or that waited for a disk.
pub const FAULTS_MAJOR: u32 = 3;

const _: () = assert!(size_of::<FaultBody>() == 8 + 8 + 40 + 40 + 8 + 32);
const _: () = assert!(size_of::<FaultHead>() == 24 + 136 + 64);
const _: () = assert!(size_of::<PagesRead>() == 24 + 40);
const _: () = assert!(size_of::<ThreadFaults>() == 176 * 2 + 40 + 40 + 64 + 8);
