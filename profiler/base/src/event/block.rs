//! Captured block requests.

use super::{At, FileId};
use crate::addr::Timestamp;

/// A thread submitted a bio to the block layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bio {
    /// The thread, and the time of submission.
    pub at: At,
    /// The submitter's name, bytes up to the first NUL.
    pub comm: Vec<u8>,
    /// The whole disk.
    pub device: Device,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Size in bytes.
    pub bytes: u32,
    /// `profiler_common::block::operation`: the operation and the flags above it.
    pub operation: u32,
    /// `profiler_common::block::BIO_*`
    pub flags: u32,
    /// The file of the data.
    pub file: Option<FileId>,
    /// The [`super::FileName::number`] of its name at that time; 0: unknown.
    pub name: u64,
    /// First page in the file, valid with `BIO_CACHED`; with `BIO_HAS_OFFSET`, the offset in bytes.
    pub page: u64,
    /// Number of the thread's current system call.
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
    /// The device of a file.
    pub fn of(file: &FileId) -> Self {
        Self {
            major: file.major,
            minor: file.minor,
        }
    }
}

/// A request, or a bio of a device without requests, has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// Time of completion, and the thread that issued it to the device (0: unknown).
    pub at: At,
    /// The whole disk.
    pub device: Device,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Size in bytes.
    pub bytes: u32,
    /// Like [`Bio::operation`].
    pub operation: u32,
    /// When its first bio was queued; `None`: unknown.
    pub queued: Option<Timestamp>,
    /// When it was put into the scheduler's queue; `None`: it was not.
    pub inserted: Option<Timestamp>,
    /// When it was first issued to the device.
    pub issued: Option<Timestamp>,
    /// The kernel's error number; 0: no error.
    pub error: i32,
    /// How often it was requeued.
    pub requeues: u32,
    /// Number of bios that were merged into it.
    pub merges: u32,
    /// Requests in the device, including this one, when it was issued.
    pub depth: u32,
    /// `profiler_common::block::REQUEST_*`
    pub flags: u32,
}

/// The name of a block device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceName {
    /// The device.
    pub device: Device,
    /// `vda`, `nvme0n1`, `dm-0`, ...
    pub name: String,
    /// The device's statistics when the recording began: `/sys/block/NAME/stat`.
    pub before: Vec<u64>,
    /// The device's statistics when the recording ended.
    pub after: Vec<u64>,
}
