//! A block request: the fact that verbs, the profile and reports read.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MappedFileId, StackId, ThreadId};
use crate::addr::Timestamp;

id!(
    /// Index into [`super::Tables::devices`].
    DeviceId
);

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BlockDevice {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// `vda`, `nvme0n1`, `dm-0`; `MAJOR:MINOR` if nobody told.
    pub name: String,
    /// What the device counted during the recording, in the order of `/sys/block/NAME/stat`; empty: unknown.
    #[serde(default)]
    pub counted: Vec<u64>,
}

impl BlockDevice {
    /// It is made of other devices, or of a file: what it is asked for, others are asked for again. The kernel's drivers give such devices
    /// names of their own.
    pub fn is_stacked(&self) -> bool {
        let made_of = |prefix: &str, rest: &str| match prefix {
            // Others may begin with the same letters.
            "md" => rest.starts_with(|c: char| c.is_ascii_digit() || c == '_'),
            _ => rest.starts_with(|c: char| c.is_ascii_digit()),
        };
        let mut prefixes = ["dm-", "md", "loop", "bcache", "drbd"].into_iter();
        prefixes.any(|prefix| self.name.strip_prefix(prefix).is_some_and(|rest| made_of(prefix, rest)))
    }
}

/// A request, or a bio of a device without requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFact {
    /// When its first bio was queued; else the earliest that is known.
    pub start: Timestamp,
    /// When it was complete; the recording's end for one that was not.
    pub end: Timestamp,
    /// The device.
    pub device: DeviceId,
    /// First sector of 512 bytes, on the whole disk.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// What the device does.
    pub operation: Operation,
    /// More about it.
    pub kind: RequestKind,
    /// From the queueing to the device; `None`: one of both was not seen.
    pub queued: Option<Duration>,
    /// From the device's getting it to its completion; `None`: not seen.
    pub service: Option<Duration>,
    /// It went through a scheduler's queue.
    pub scheduled: bool,
    /// Requests that the device had, this one included, when it got this one; 0: unknown.
    pub depth: u32,
    /// The kernel's number for the error; 0: none.
    pub error: i32,
    /// How often it was given back to the queue.
    pub requeues: u32,
    /// How much of it was seen.
    pub sight: RequestSight,
    /// The device takes bios, not requests (zram, dm, md): what it makes of one may be a request of another device.
    pub bio_only: bool,
    /// Who asked for it, by sector; empty: nobody saw.
    pub bios: Vec<BioFact>,
}

/// A part of a request, as somebody asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BioFact {
    /// When.
    pub time: Timestamp,
    /// The submitter's thread group.
    pub pid: u32,
    /// The submitter.
    pub tid: u32,
    /// The submitter's name.
    pub name: String,
    /// The submitter, if it is recorded.
    pub thread: Option<ThreadId>,
    /// Where it was.
    pub stack: Option<StackId>,
    /// First sector.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// The file.
    pub file: Option<MappedFileId>,
    /// First byte in the file; `None`: unknown.
    pub offset: Option<u64>,
    /// Why there is no file, or what kind of access it is.
    pub source: BioSource,
    /// It was asked for within a page fault.
    pub in_fault: bool,
    /// Number of the system call that the submitter was in.
    pub call: Option<u32>,
}

/// Between what and the device the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BioSource {
    /// The page cache of a file.
    Cache,
    /// The program's own memory (`O_DIRECT`).
    Direct,
    /// The device's own page cache: a file system's metadata, or the device opened as a file.
    Metadata,
    /// Anonymous memory: swap.
    Swap,
    /// No bytes: a flush, a discard.
    Nothing,
    /// Unknown: memory of the kernel's.
    #[default]
    Unknown,
}

impl BioSource {
    /// As tables, CSV and JSON name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Direct => "direct",
            Self::Metadata => "metadata",
            Self::Swap => "swap",
            Self::Nothing => "nothing",
            Self::Unknown => "unknown",
        }
    }
}

/// What a device is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Read.
    #[default]
    Read,
    /// Write.
    Write,
    /// Write its cache to the medium.
    Flush,
    /// Forget sectors.
    Discard,
    /// Write zeroes.
    WriteZeroes,
    /// Something of the driver's own.
    Other,
}

impl Operation {
    /// It moves its bytes between memory and device: a discard, however large, moves none.
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Every operation, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
        Self::Other,
    ];

    /// As tables, CSV and JSON name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
            Self::Other => "other",
        }
    }
}

/// Flags of a request.
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RequestKind {
    /// Read ahead of what was asked for.
    pub read_ahead: bool,
    /// Somebody waits for it, as far as the kernel guesses.
    pub sync: bool,
    /// Metadata of a file system.
    pub metadata: bool,
    /// Through the device's cache, or with a flush before.
    pub fua: bool,
}

/// How much of a request was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestSight {
    /// All of it.
    #[default]
    Whole,
    /// It was under way when the recording began.
    NoStart,
    /// It was under way when the recording ended.
    NoEnd,
}

/// Requests of one device that the profile's budget had no room for one by one: the smallest go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedRequests {
    /// The device.
    pub device: DeviceId,
    /// What it did.
    pub operation: Operation,
    /// How many.
    pub requests: u64,
    /// Sum of [`RequestFact::bytes`].
    pub bytes: u64,
    /// Sum of their times from [`RequestFact::start`] to its end, in ns.
    pub time: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacked_devices_are_known_by_their_names() {
        let is_stacked = |name: &str| {
            let name = name.to_owned();
            let device = BlockDevice {
                name,
                ..BlockDevice::default()
            };
            device.is_stacked()
        };
        for name in ["dm-0", "md127", "md_d0", "loop7", "bcache0", "drbd1"] {
            assert!(is_stacked(name), "{name}");
        }
        for name in ["vda", "sda", "nvme0n1", "zram0", "mmcblk0", "dm-", "loop", "253:0", ""] {
            assert!(!is_stacked(name), "{name}");
        }
    }
}
