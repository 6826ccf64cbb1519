//! fault: a page fault of a recorded thread, from its exception to its completion.
//!
//! The kernel handles one fault in one or more attempts (`VM_FAULT_RETRY`), and a fault may begin inside another one, when the
//! kernel copies from or to user memory. One record is one fault, sent at its end.

mod sampled;

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use self::sampled::{
    Counted, FIRST_FAULTS, LONG_FAULT, SAMPLED_A_WINDOW, SAMPLING_MEMORY, SAMPLING_WINDOW, SampledKind, Sampling,
};
use crate::RecordHeader;
use crate::stack::Stacks;

/// [`FaultBody::start`] is known.
pub const FAULT_STARTED: u32 = 1;
/// The exception was recorded: `start` is its time, and `error_code` is the processor's.
pub const FAULT_EXCEPTION: u32 = 2;
/// [`FaultBody::vma`] was read while the fault was handled.
pub const FAULT_HAS_VMA: u32 = 4;
/// The mapping is of a file: inode, device, offset and magic number are valid.
pub const FAULT_HAS_FILE: u32 = 8;
/// The mapping belongs to another process's memory (`process_vm_readv`, ptrace, the arguments of exec).
pub const FAULT_REMOTE: u32 = 16;
/// The kernel counts it as a major fault.
pub const FAULT_MAJOR: u32 = 32;
/// It failed: the kernel counts it neither as minor nor as major.
pub const FAULT_FAILED: u32 = 64;
/// `handle_mm_fault` was traced: `asked`, `returned`, `retries` and `waits.lock` are valid.
pub const FAULT_HANDLED: u32 = 128;
/// The mapping could not be read: its lock was busy.
pub const FAULT_VMA_BUSY: u32 = 256;
/// A huge page (2 MiB on x86-64) was mapped.
pub const FAULT_HUGE: u32 = 512;
/// The page was not mapped by fault-around: the file system's fault function was called (`filemap_fault`).
pub const FAULT_FILEMAP: u32 = 1024;
/// The kernel counts more switches of the thread than were recorded in the fault: `waits.disk`, `blocked` and `preempted` are incomplete.
pub const FAULT_SWITCH_MISSED: u32 = 2048;
/// [`FaultBody::mapped`] was read from the page table at the end of the fault.
pub const FAULT_HAS_MAPPED: u32 = 4096;
/// With [`FAULTS_AUTO`], the rest of a thread's [`Counted`] faults: none of them was recorded.
pub const FAULT_REST: u32 = 8192;
/// In the eBPF programs only: it represents the faults that were counted before it.
pub const FAULT_CARRIES: u32 = 1 << 29;
/// In the eBPF programs only: an attempt is in progress.
pub const FAULT_INSIDE: u32 = 1 << 30;
/// In the eBPF programs only: the fault is in progress.
pub const FAULT_OPEN: u32 = 1 << 31;

/// Bits of the processor's error code for a page fault on x86-64 (`arch/x86/include/asm/trap_pf.h`).
pub mod error_code {
    /// The page was present, but not for this access.
    pub const PRESENT: u32 = 1;
    /// A write.
    pub const WRITE: u32 = 2;
    /// In user mode.
    pub const USER: u32 = 4;
    /// An instruction fetch.
    pub const INSTRUCTION: u32 = 16;
}

/// Flags of a call of `handle_mm_fault` (`enum fault_flag` of `include/linux/mm_types.h`).
pub mod asked {
    /// A write.
    pub const WRITE: u32 = 1;
    /// Not the first attempt.
    pub const TRIED: u32 = 0x20;
    /// In user mode.
    pub const USER: u32 = 0x40;
    /// Not the current task's memory.
    pub const REMOTE: u32 = 0x80;
    /// An instruction fetch.
    pub const INSTRUCTION: u32 = 0x100;
}

/// Result bits of `handle_mm_fault` (`enum vm_fault_reason` of `include/linux/mm_types.h`).
pub mod returned {
    /// Out of memory.
    pub const OOM: u32 = 1;
    /// Beyond the end of the file, or the file could not be read.
    pub const SIGBUS: u32 = 2;
    /// It started a read.
    pub const MAJOR: u32 = 4;
    /// The memory is faulty.
    pub const HWPOISON: u32 = 0x10;
    /// As above, in a huge page.
    pub const HWPOISON_LARGE: u32 = 0x20;
    /// Not allowed.
    pub const SIGSEGV: u32 = 0x40;
    /// The attempt released its locks; another one follows.
    pub const RETRY: u32 = 0x400;
    /// A huge page was not available.
    pub const FALLBACK: u32 = 0x800;
    /// Completed, with the locks released.
    pub const COMPLETED: u32 = 0x4000;
    /// `VM_FAULT_ERROR`
    pub const ERROR: u32 = OOM | SIGBUS | SIGSEGV | HWPOISON | HWPOISON_LARGE | FALLBACK;
}

/// The mapping of a fault.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Vma {
    /// Inode of the file, with [`FAULT_HAS_FILE`].
    pub inode: u64,
    /// Offset of the faulting page in the file, in bytes.
    pub offset: u64,
    /// `VM_*` (include/linux/mm.h).
    pub flags: u64,
    /// The file system's device in the kernel's encoding: major << 20 | minor.
    pub device: u32,
    /// The file system's magic number (include/uapi/linux/magic.h).
    pub magic: u32,
    /// `file->f_ra.mmap_miss`, lower 16 bits: above 100, the kernel does not read around a fault.
    pub mmap_miss: u32,
    /// `inode->i_generation`: distinguishes files that had the same inode number one after another.
    pub generation: u32,
}

/// The time that a fault waited, by reason, in ns. The parts do not overlap, except for `reclaim`, which includes waits.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Waits {
    /// Outside `handle_mm_fault`: mostly for the lock of the address space.
    pub lock: u64,
    /// Switched out for I/O (`in_iowait`), until it ran again.
    pub disk: u64,
    /// Switched out for another reason.
    pub blocked: u64,
    /// Switched out while runnable.
    pub preempted: u64,
    /// In direct reclaim or compaction.
    pub reclaim: u64,
}

/// The content of a fault's record, in addition to thread, time and stack.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct FaultBody {
    /// The accessed address.
    pub address: u64,
    /// Start time (`CLOCK_MONOTONIC` in ns), with [`FAULT_STARTED`].
    pub start: u64,
    /// The mapping, with [`FAULT_HAS_VMA`].
    pub vma: Vma,
    /// Its waits.
    pub waits: Waits,
    /// With [`FAULT_HAS_MAPPED`], the pages of the mapping that are in the processor's page table, a bit each: of the
    /// aligned block of [`BLOCK_PAGES`] pages that contains the address, from the lowest bit of the first number on.
    pub mapped: [u16; BLOCK_PAGES / 16],
    /// `FAULT_*`
    pub flags: u32,
    /// [`error_code`]s
    pub error_code: u32,
    /// Union of the flags that its attempts were [`asked`] with.
    pub asked: u32,
    /// Union of the bits that its attempts [`returned`].
    pub returned: u32,
    /// Number of attempts after the first.
    pub retries: u32,
    /// Pages that were read into the page cache during the fault.
    pub read: u32,
    /// Signal that it raised; 0: none.
    pub signal: u32,
    /// The pages of that block that belong to the mapping, from the first to the one after the last; both 0: unknown.
    pub bounds: [u16; 2],
}

/// Pages of a block in [`FaultBody::mapped`]: those of one page table on x86-64.
pub const BLOCK_PAGES: usize = 512;
/// Pages of a block whose entries are read at once.
pub const CHUNK: u64 = 16;

/// Start of a fault's record; the copy of the stack follows. The header's time is the end of the fault.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct FaultHead {
    /// Kind [`crate::RecordKind::Fault`].
    pub header: RecordHeader,
    /// The fault.
    pub body: FaultBody,
    /// Faults that it represents besides itself.
    pub others: Counted,
    /// Stack of the thread.
    pub stacks: Stacks,
}

/// Consecutive pages that a recorded thread read into the page cache.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct PagesRead {
    /// Kind [`crate::RecordKind::PagesRead`]; the time is that of the record.
    pub header: RecordHeader,
    /// The pages.
    pub run: ReadRun,
}

/// Consecutive pages of a file.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct ReadRun {
    /// When the first page was added (`CLOCK_MONOTONIC` in ns).
    pub since: u64,
    /// Inode of the file.
    pub inode: u64,
    /// Index of the first page in the file.
    pub first: u64,
    /// Device; see [`Vma::device`].
    pub device: u32,
    /// Number of pages; 0: none.
    pub count: u32,
    /// 1: within a page fault; 0: within a system call.
    pub in_fault: u16,
    /// Binary logarithm of the pages of each folio: all folios of a run have the same size, and start at multiples of it.
    pub order: u16,
    /// See [`Vma::generation`].
    pub generation: u32,
}

/// Pages that a system call mapped without a fault of the thread (`MAP_POPULATE`, `mlock`, `MADV_POPULATE_*`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct PagesPopulated {
    /// Kind [`crate::RecordKind::PagesPopulated`]
    pub header: RecordHeader,
    /// Address of the first page.
    pub start: u64,
    /// The address after the last page: every page up to there is in the processor's page table.
    pub end: u64,
}

/// Where the kernel placed a mapping that it populates, as stored by the eBPF programs.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Placed {
    /// First address of the free memory that it found.
    pub start: u64,
    /// Bytes that it looked for: more than the mapping has where it aligns that to huge pages.
    pub len: u64,
}

/// A fault in progress, as stored by the eBPF programs.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Pending {
    /// What is known so far.
    pub body: FaultBody,
    /// When the thread was switched out; 0: it is running, or that wait is accounted for.
    pub out_since: u64,
    /// When an attempt released its locks.
    pub left: u64,
    /// When direct reclaim or compaction began; 0: neither is in progress.
    pub reclaim_since: u64,
    /// The kernel's count of the thread's switches at the start.
    pub switches_before: u64,
    /// Number of recorded switches since the start.
    pub switches: u32,
    /// Why it was switched out: [`OUT_PREEMPTED`], [`OUT_DISK`] or [`OUT_BLOCKED`].
    pub out_kind: u32,
    /// First address of the mapping, and the one after the last; both 0: unknown.
    pub range: [u64; 2],
    /// Address of the `mm_struct` whose memory was accessed; 0: the thread's own.
    pub mm: u64,
}

/// [`Pending::out_kind`]: it was runnable.
pub const OUT_PREEMPTED: u32 = 0;
/// [`Pending::out_kind`]: for I/O.
pub const OUT_DISK: u32 = 1;
/// [`Pending::out_kind`]: for another reason.
pub const OUT_BLOCKED: u32 = 2;

/// Numbers of faults of a thread, by outcome.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct FaultCounts {
    /// Sent, or represented by one that was; except for failed ones.
    pub seen: u64,
    /// Lost because the ring was full.
    pub lost: u64,
    /// Not requested (`--faults`).
    pub filtered: u64,
    /// Failed, whether sent or not: the kernel does not count them.
    pub failed: u64,
    /// The kernel's count before the first traced fault; [`BEFORE_UNKNOWN`]: none was traced yet.
    pub before: u64,
}

/// [`FaultCounts::before`]: no fault of the thread was traced yet.
pub const BEFORE_UNKNOWN: u64 = u64::MAX;

/// The faults of a thread, as stored by the eBPF programs.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct ThreadFaults {
    /// The innermost fault in progress.
    pub inner: Pending,
    /// The fault that it interrupts.
    pub outer: Pending,
    /// The outcomes of earlier faults.
    pub counts: FaultCounts,
    /// Faults since the last one that represents others, by [`SampledKind`].
    pub others: [Counted; SampledKind::ALL.len()],
    /// How the next ones are chosen.
    pub sampling: Sampling,
    /// Pages that were read and not sent yet.
    pub run: ReadRun,
    /// The latest mapping that is to be populated.
    pub placed: Placed,
    /// Stack of the thread at the fault that is being sent.
    pub stacks: Stacks,
    /// Remaining bytes of its stack to copy.
    pub want: u64,
}

/// Record all page faults.
pub const FAULTS_ALL: u32 = 1;
/// Record page faults in file mappings.
pub const FAULTS_FILE: u32 = 2;
/// Record page faults that the kernel counts as major, or that waited for a disk.
pub const FAULTS_MAJOR: u32 = 3;
/// Record all page faults except writes to anonymous memory without a wait: of these, a random sample that represents the
/// others.
pub const FAULTS_AUTO: u32 = 4;

const _: () = assert!(size_of::<FaultBody>() == 8 + 8 + 40 + 40 + 64 + 32);
const _: () = assert!(size_of::<FaultHead>() == 24 + 192 + 16 + 64);
const _: () = assert!(size_of::<PagesRead>() == 24 + 40);
const _: () = assert!(size_of::<PagesPopulated>() == 24 + 16);
const _: () = assert!(size_of::<ThreadFaults>() == 256 * 2 + 40 + 2 * 16 + 24 + 40 + 16 + 64 + 8);
