//! block: requests to block devices, from submission to completion.
//!
//! A *bio* is what a thread submits; a *request* is what the device receives: one bio, a part of one, or several merged ones. They are
//! matched by location: the same device, and the bio's sectors are within the request's.

#[cfg(feature = "user")]
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::RecordHeader;
use crate::switch::OpenFile;

/// Bytes of a sector, the unit of [`BioBody::sector`] on every device.
pub const SECTOR: u64 = 512;

/// Operations (`enum req_op` of `include/linux/blk_types.h`): the lowest eight bits of [`BioBody::operation`].
pub mod operation {
    /// Bits of the operation; flags are above.
    pub const MASK: u32 = 0xff;
    /// Read.
    pub const READ: u32 = 0;
    /// Write.
    pub const WRITE: u32 = 1;
    /// Flush the device's own cache.
    pub const FLUSH: u32 = 2;
    /// Discard sectors.
    pub const DISCARD: u32 = 3;
    /// Discard sectors, securely.
    pub const SECURE_ERASE: u32 = 5;
    /// Write zeroes.
    pub const WRITE_ZEROES: u32 = 9;
    /// Passed through by the driver (`REQ_OP_DRV_IN`, and `_OUT` one above): not I/O of sectors.
    pub const DRIVER: u32 = 34;

    /// In the event log, above the operation: a thread waits for it. (Records contain the kernel's own flags, whose positions are in its
    /// BTF.)
    pub const SYNC: u32 = 1 << 8;
    /// As above: metadata of a file system.
    pub const META: u32 = 1 << 9;
    /// As above: read-ahead.
    pub const READ_AHEAD: u32 = 1 << 10;
    /// As above: through the device's cache.
    pub const FUA: u32 = 1 << 11;
    /// As above: with a flush before.
    pub const PREFLUSH: u32 = 1 << 12;
}

/// [`BioBody::flags`]: the submitter is recorded; its stack is in an earlier stack-ahead record with this record's time.
pub const BIO_RECORDED: u32 = 1;
/// [`BioBody::flags`]: [`BioBody::file`] is known.
pub const BIO_HAS_FILE: u32 = 2;
/// [`BioBody::flags`]: to or from the page cache; `page` is the first page.
pub const BIO_CACHED: u32 = 4;
/// [`BioBody::flags`]: to or from the program's own memory (`O_DIRECT`).
pub const BIO_DIRECT: u32 = 8;
/// [`BioBody::flags`]: the file is the device itself: a file system's metadata, or the device opened as a file.
pub const BIO_DEVICE: u32 = 16;
/// [`BioBody::flags`]: anonymous memory that is written to or read from swap.
pub const BIO_SWAP: u32 = 32;
/// [`BioBody::flags`]: within a page fault.
pub const BIO_IN_FAULT: u32 = 64;
/// [`BioBody::flags`]: within the system call `call`.
pub const BIO_IN_CALL: u32 = 128;
/// [`BioBody::flags`]: submitted by a kernel thread (writeback, a worker).
pub const BIO_KERNEL_THREAD: u32 = 256;
/// [`BioBody::flags`]: with [`BIO_DIRECT`]; `page` is the byte offset in the file.
pub const BIO_HAS_OFFSET: u32 = 512;

/// [`RequestBody::flags`]: its start was not recorded.
pub const REQUEST_UNSEEN_START: u32 = 1;
/// [`RequestBody::flags`]: this is a bio, not a request: the device has no requests (zram, dm, md).
pub const REQUEST_BIO_ONLY: u32 = 2;
/// [`RequestBody::flags`]: it was in flight when the recording ended.
pub const REQUEST_UNFINISHED: u32 = 4;
/// [`RequestBody::flags`]: the kernel counts it in the device's statistics.
pub const REQUEST_COUNTED: u32 = 8;

/// A submitted bio.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct BioBody {
    /// First sector, of the whole disk.
    pub sector: u64,
    /// First page in the file, with [`BIO_CACHED`]; the offset in bytes with [`BIO_HAS_OFFSET`].
    pub page: u64,
    /// The file, with [`BIO_HAS_FILE`].
    pub file: OpenFile,
    /// Size in bytes.
    pub bytes: u32,
    /// Whole disk, in the kernel's encoding: major << 20 | minor.
    pub device: u32,
    /// [`operation`] and flags.
    pub operation: u32,
    /// `BIO_*`
    pub flags: u32,
    /// Number of the system call, with [`BIO_IN_CALL`].
    pub call: u32,
    /// Explicit padding.
    pub pad: u32,
}

/// A bio was submitted to the block layer, by the header's thread at the header's time.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Bio {
    /// Kind [`crate::RecordKind::Bio`].
    pub header: RecordHeader,
    /// The bio.
    pub body: BioBody,
    /// The submitter's name.
    pub comm: [u8; 16],
}

/// A device's request.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct RequestBody {
    /// First sector, of the whole disk.
    pub sector: u64,
    /// When the first bio was queued; 0: unknown.
    pub queued: u64,
    /// When it was put into the scheduler's queue; 0: it went directly to the device.
    pub inserted: u64,
    /// When it was first issued to the device; 0: never, or unknown.
    pub issued: u64,
    /// Total bytes of all its bios.
    pub bytes: u32,
    /// See [`BioBody::device`].
    pub device: u32,
    /// See [`BioBody::operation`].
    pub operation: u32,
    /// `blk_status_t`, or a negative error number on kernels before 5.16; 0: none.
    pub error: i32,
    /// How often it was requeued.
    pub requeues: u32,
    /// Number of bios that were merged into it.
    pub merges: u32,
    /// Requests in the device, including this one, when it was issued.
    pub depth: u32,
    /// `REQUEST_*`
    pub flags: u32,
}

/// A request has completed, at the header's time. The header's thread is the one that issued it, or 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct Request {
    /// Kind [`crate::RecordKind::Request`].
    pub header: RecordHeader,
    /// The request.
    pub body: RequestBody,
}

/// A request in flight, as stored by the eBPF programs.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(FromBytes, IntoBytes, Immutable, KnownLayout))]
pub struct PendingRequest {
    /// What is known so far.
    pub body: RequestBody,
    /// The thread that issued it: pid << 32 | tid.
    pub who: u64,
    /// 1: it has been issued to the device.
    pub issued_now: u32,
    /// Explicit padding.
    pub pad: u32,
}

const _: () = assert!(size_of::<BioBody>() == 16 + 32 + 24);
const _: () = assert!(size_of::<Bio>() == 24 + 72 + 16);
const _: () = assert!(size_of::<RequestBody>() == 32 + 32);
const _: () = assert!(size_of::<Request>() == 24 + 64);
const _: () = assert!(size_of::<PendingRequest>() == 64 + 16);
