//! Block requests as they were captured.

use super::{At, FileId};
use crate::addr::Timestamp;

/// A thread handed a bio to the block layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bio {
    /// Who and when.
    pub at: At,
    /// The submitter's name, bytes up to the first NUL.
    pub comm: Vec<u8>,
    /// The whole disk.
    pub device: Device,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// `profiler_common::block::operation`: the operation and the flags above it.
    pub operation: u32,
    /// `profiler_common::block::BIO_*`
    pub flags: u32,
    /// The file that is read or written.
    pub file: Option<FileId>,
    /// The [`super::FileName::number`] of the name that it had then; 0: unknown.
    pub name: u64,
    /// First page, counted in the file, valid with `BIO_CACHED`; the offset in bytes with `BIO_HAS_OFFSET`.
    pub page: u64,
    /// Number of the system call that the thread is in.
    pub call: Option<u32>,
}

/// A block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Device {
    /// The one that a file is on.
    pub fn of(file: &FileId) -> Self {
        Self {
            major: file.major,
            minor: file.minor,
        }
    }
}

/// A request, or a bio of a device without requests, is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// When it was complete, and the thread that gave it to the device (0: unknown).
    pub at: At,
    /// The whole disk.
    pub device: Device,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// As [`Bio::operation`].
    pub operation: u32,
    /// When its first bio was queued; `None`: nobody saw.
    pub queued: Option<Timestamp>,
    /// When it was put into the scheduler's queue; `None`: it was not.
    pub inserted: Option<Timestamp>,
    /// When the device got it first.
    pub issued: Option<Timestamp>,
    /// 0: none; else the kernel's number for the error.
    pub error: i32,
    /// How often it was given back to the queue.
    pub requeues: u32,
    /// Bios that were merged into it.
    pub merges: u32,
    /// Requests that the device had, this one included, when it got this one.
    pub depth: u32,
    /// `profiler_common::block::REQUEST_*`
    pub flags: u32,
}

/// The name of a block device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceName {
    /// Which.
    pub device: Device,
    /// `vda`, `nvme0n1`, `dm-0`, ...
    pub name: String,
    /// Numbers of the device's statistics when the recording began: `/sys/block/NAME/stat`.
    pub before: Vec<u64>,
    /// The same when it ended.
    pub after: Vec<u64>,
}
