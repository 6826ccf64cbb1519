//! Conversion between page faults or page reads and the payloads of their markers.

mod bits;
pub(crate) mod names;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::bits::known_parts;
use self::names::FaultNames;
use crate::units::{duration_of, milliseconds};
use base::addr::{Avma, FileOffset, PAGE, Timestamp, ns};
use fact::fault::{FaultWaits, FilePlace, Mapped, OtherFaults, PageRange};
use fact::{FaultFact, MappedFileId, PagesBy, PagesReadFact, StackId, ThreadId};

/// Payload type of a fault that found its page in memory.
pub const FAULT: &str = "PageFault";
/// Payload type of a fault that waited for a disk or for another thread's read: it has a separate
/// colour and track.
pub const DISK_FAULT: &str = "PageFaultDisk";
/// Payload type of pages that were read.
pub const READ: &str = "PagesRead";

/// A page fault. An absent value is zero, none or unknown: `bits` distinguishes them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FaultPayload {
    /// [`FAULT`] or [`DISK_FAULT`]
    #[serde(skip_deserializing)]
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<u32>,
    /// Number of the file in our tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_id: Option<u32>,
    /// Offset of the page's start in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<String>,
    /// The accessed address, unless it follows from offset and page address.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<u32>,
    class: u32,
    access: u32,
    counted: u32,
    address: String,
    /// See [`bits`].
    bits: u64,
    #[serde(skip_serializing_if = "is_zero")]
    lock: f64,
    #[serde(skip_serializing_if = "is_zero")]
    disk: f64,
    #[serde(skip_serializing_if = "is_zero")]
    other_read: f64,
    #[serde(skip_serializing_if = "is_zero")]
    blocked: f64,
    #[serde(skip_serializing_if = "is_zero")]
    preempted: f64,
    #[serde(skip_serializing_if = "is_zero")]
    reclaim: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries: Option<u32>,
    /// Number of other pages that it mapped.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    around: Option<u32>,
    /// All pages that it mapped, unless it is only its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    mapped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages_read: Option<u32>,
    /// Number of other faults that it represents.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<u32>,
    /// Sum of their latencies.
    #[serde(skip_serializing_if = "is_zero")]
    others_time: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    remarks: Option<u32>,
    /// Why it waited.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Index of its flow's id.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub flow: Option<u32>,
    /// Colour in the front end.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    color: Option<&'static str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(ms: &f64) -> bool {
    *ms == 0.0
}

impl FaultPayload {
    /// Converts a fault.
    pub fn new(fault: &FaultFact, names: &FaultNames<'_>) -> Self {
        let disk = fault.waited();
        let others = fault.mapped.filter(|mapped| mapped.others() > 0);
        let ms = |part: Option<Duration>| milliseconds(part.unwrap_or_default());
        let FaultWaits {
            lock,
            disk: for_disk,
            other_read,
            blocked,
            preempted,
            reclaim,
        } = fault.waits;
        let mut payload = Self {
            r#type: if disk { DISK_FAULT } else { FAULT },
            color: disk.then_some("red"),
            class: names.class(fault.class),
            access: names.access(fault.access),
            counted: names.counted(fault),
            remarks: names.remarks(fault),
            address: hex(fault.address.0),
            bits: bits::encode(fault),
            lock: ms(lock),
            disk: ms(for_disk),
            other_read: ms(other_read),
            blocked: ms(blocked),
            preempted: ms(preempted),
            reclaim: ms(reclaim),
            retries: fault.retries.filter(|retries| *retries > 0),
            around: others.map(Mapped::others),
            mapped: others.map(|mapped| mapped.to_string()),
            pages_read: (fault.pages_read > 0).then_some(fault.pages_read),
            others: (fault.others.count > 0).then_some(fault.others.count),
            others_time: milliseconds(fault.others.time),
            ..Self::default()
        };
        if let Some(place) = fault.place {
            let file = names.file(place.file);
            payload.file_id = Some(place.file.0);
            payload.file = file.map(|file| file.name);
            payload.path = file.map(|file| file.path);
            payload.offset = Some(hex(place.offset.0));
            payload.byte = (place.byte != usual_byte(place.offset, fault.address)).then(|| hex(place.byte.0));
            (payload.section, payload.symbol) = names.at(&place);
        }
        payload
    }

    /// Converts back to the fault; `None` if no fault has such a payload.
    pub fn into_fact(self, at: Placed) -> Option<FaultFact> {
        let (bits, known) = bits::decode(self.bits)?;
        let address = Avma(parse_hex(&self.address)?);
        let place = match (self.file_id, &self.offset) {
            (Some(file), Some(offset)) => {
                let offset = FileOffset(parse_hex(offset)?);
                let byte = match &self.byte {
                    Some(byte) => FileOffset(parse_hex(byte)?),
                    None => usual_byte(offset, address),
                };
                let file = MappedFileId(file);
                Some(FilePlace { file, offset, byte })
            }
            _ => None,
        };
        let mapped = match &self.mapped {
            Some(text) => text.parse().ok()?,
            None => Mapped::own(),
        };
        let mut waits = FaultWaits::default();
        let parts = [
            self.lock,
            self.disk,
            self.other_read,
            self.blocked,
            self.preempted,
            self.reclaim,
        ];
        for ((slot, ms), known) in known_parts(&mut waits).into_iter().zip(parts).zip(known.parts) {
            let time = duration_of(ms).ok()?;
            *slot = known.then_some(time);
        }
        Some(FaultFact {
            start: at.start,
            latency: at.end.map(|end| end.since(at.start)),
            thread: at.thread,
            stack: at.stack,
            address,
            place,
            waits,
            retries: known.retries.then(|| self.retries.unwrap_or(0)),
            mapped: known.mapped.then_some(mapped),
            pages_read: self.pages_read.unwrap_or(0),
            others: OtherFaults {
                count: self.others.unwrap_or(0),
                time: duration_of(self.others_time).ok()?,
            },
            ..bits
        })
    }
}

/// The other columns of a marker.
#[derive(Debug, Clone, Copy)]
pub struct Placed {
    /// Start time.
    pub start: Timestamp,
    /// End time of an interval.
    pub end: Option<Timestamp>,
    /// Its thread.
    pub thread: ThreadId,
    /// Its backtrace.
    pub stack: Option<StackId>,
}

/// Payload of a page read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadPayload {
    /// [`READ`]
    #[serde(skip_deserializing)]
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<u32>,
    file_id: u32,
    /// Offset of the first page.
    offset: String,
    /// Index of the first page.
    page: String,
    pages: u32,
    bytes: u64,
    during: u32,
    by: PagesBy,
    /// [`PagesReadFact::order`]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<u8>,
}

impl ReadPayload {
    /// Converts a read.
    pub fn new(read: &PagesReadFact, names: &FaultNames<'_>) -> Self {
        let file = names.file(read.file);
        Self {
            r#type: READ,
            file: file.map(|file| file.name),
            path: file.map(|file| file.path),
            file_id: read.file.0,
            offset: hex(read.pages.first.saturating_mul(PAGE)),
            page: hex(read.pages.first),
            pages: read.pages.count,
            bytes: u64::from(read.pages.count) * PAGE,
            during: names.during(read.by),
            by: read.by,
            order: read.order,
        }
    }

    /// Converts back to the read; `None` if no read has such a payload.
    pub fn into_fact(self, at: Placed) -> Option<PagesReadFact> {
        Some(PagesReadFact {
            time: at.start,
            thread: at.thread,
            file: MappedFileId(self.file_id),
            pages: PageRange {
                first: parse_hex(&self.page)?,
                count: self.pages,
            },
            by: self.by,
            order: self.order,
        })
    }
}

/// The accessed address follows from page and address if both count in pages of 4 KiB.
fn usual_byte(offset: FileOffset, address: Avma) -> FileOffset {
    FileOffset(offset.0.saturating_add(address.0 % PAGE))
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}

fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// When a fault ended; `None`: its duration is unknown.
pub fn end(fault: &FaultFact) -> Option<Timestamp> {
    let latency = ns(fault.latency?);
    Some(Timestamp(fault.start.0.saturating_add(latency)))
}
