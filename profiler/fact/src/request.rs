//! A block request, as subcommands, the profile and reports read it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MappedFileId, StackId, ThreadId};
use base::addr::Timestamp;
use base::{id, named};

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
    /// `vda`, `nvme0n1`, `dm-0`; `MAJOR:MINOR` if its name is unknown.
    pub name: String,
    /// The device's counters for the recording, in the order of `/sys/block/NAME/stat`; empty if unknown.
    #[serde(default)]
    pub counted: Vec<u64>,
}

impl BlockDevice {
    /// Whether it consists of other devices, or of a file: its requests lead to requests of others. The kernel's
    /// drivers give such devices distinctive names.
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
    /// When its first bio was queued; else the earliest known time.
    pub start: Timestamp,
    /// When it completed; for an unfinished one, the end of the recording.
    pub end: Timestamp,
    /// The device.
    pub device: DeviceId,
    /// First sector of 512 bytes, on the whole disk.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// The device operation.
    pub operation: Operation,
    /// Flags of the request.
    pub kind: RequestKind,
    /// From queueing to issue; `None` if either was not seen.
    pub queued: Option<Duration>,
    /// From issue to the device until completion; `None` if either was not seen.
    pub service: Option<Duration>,
    /// Whether it went through a scheduler's queue.
    pub scheduled: bool,
    /// Requests that the device had when it got this one, including it; 0 if unknown.
    pub depth: u32,
    /// The kernel's error number; 0: none.
    pub error: i32,
    /// How often it was requeued.
    pub requeues: u32,
    /// How much of it was seen.
    pub coverage: RequestCoverage,
    /// Whether the device takes bios, not requests (zram, dm, md): it may turn one into a request to another device.
    pub bio_only: bool,
    /// The submitted parts, by sector; empty if none was seen.
    pub bios: Vec<BioFact>,
}

/// A part of a request, as submitted by a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BioFact {
    /// When it was queued.
    pub time: Timestamp,
    /// The submitter's thread group.
    pub pid: u32,
    /// The submitter.
    pub tid: u32,
    /// The submitter's name.
    pub name: String,
    /// The submitter, if recorded.
    pub thread: Option<ThreadId>,
    /// The submitter's stack.
    pub stack: Option<StackId>,
    /// First sector.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// The file.
    pub file: Option<MappedFileId>,
    /// First byte in the file; `None` if unknown.
    pub offset: Option<u64>,
    /// The kind of access, which may explain why there is no file.
    pub source: BioSource,
    /// Whether it was submitted within a page fault.
    pub in_fault: bool,
    /// Number of the system call that the submitter was in.
    pub call: Option<u32>,
}

named! {
    /// What the bytes are transferred to or from, besides the device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum BioSource {
        /// The page cache of a file.
        Cache => "cache",
        /// The program's own memory (`O_DIRECT`).
        Direct => "direct",
        /// The device's own page cache: a file system's metadata, or the device opened as a file.
        Metadata => "metadata",
        /// Anonymous memory: swap.
        Swap => "swap",
        /// Not applicable: a flush or a discard.
        Nothing => "nothing",
        /// Unknown: memory of the kernel.
        #[default]
        Unknown => "unknown",
    }
}

named! {
    /// A device operation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Operation {
        /// Read.
        #[default]
        Read => "read",
        /// Write.
        Write => "write",
        /// Write the device's cache to the medium.
        Flush => "flush",
        /// Discard sectors.
        Discard => "discard",
        /// Write zeroes.
        WriteZeroes => "write-zeroes",
        /// A driver-specific operation.
        Other => "other",
    }
}

impl Operation {
    /// Whether it transfers bytes between memory and device: a discard, however large, transfers none.
    pub fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// Flags of a request.
#[allow(clippy::struct_excessive_bools)] // each is a separate flag
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RequestKind {
    /// Read ahead of what was requested.
    pub read_ahead: bool,
    /// A thread waits for it, as far as the kernel guesses.
    pub sync: bool,
    /// Metadata of a file system.
    pub metadata: bool,
    /// Written through the device's cache, or preceded by a flush.
    pub fua: bool,
}

named! {
    /// How much of a request was seen.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub enum RequestCoverage {
        /// All of it.
        #[default]
        #[serde(rename = "whole")]
        Full => "whole",
        /// It was in progress when the recording began.
        #[serde(rename = "no-start")]
        StartMissed => "no-start",
        /// It was in progress when the recording ended.
        #[serde(rename = "no-end")]
        EndMissed => "no-end",
    }
}

/// Requests of one device that exceeded the profile's budget: the smallest are folded first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedRequests {
    /// The device.
    pub device: DeviceId,
    /// The operation.
    pub operation: Operation,
    /// Number of requests.
    pub requests: u64,
    /// Sum of [`RequestFact::bytes`].
    pub bytes: u64,
    /// Sum of the times from [`RequestFact::start`] to completion, in ns.
    pub time: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacked_devices_are_recognized_by_name() {
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
