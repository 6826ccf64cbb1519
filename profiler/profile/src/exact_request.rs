//! Block requests in the profile's `ngmi` section, bit-exact: an array for each; times are relative
//! to the profile's time 0.

use serde::{Deserialize, Serialize};

use super::exact::Big;
use super::exact_wait::{big, duration};
use super::read::ReadError;
use super::read_tables::StackRows;
use super::shared::Shared;
use base::addr::Timestamp;
use fact::request::{BioFact, BioSource, Operation, RequestCoverage, RequestFact, RequestKind};
use fact::{DeviceId, MappedFileId, StackId, Tables, ThreadId};

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawRequest(
    /// Start, relative to time 0.
    Big,
    /// End, relative to the start.
    Big,
    /// Device.
    u32,
    /// Sector.
    Big,
    /// Bytes.
    u32,
    Operation,
    /// Flags, see [`bits`].
    u32,
    /// Time before it was issued to the device.
    Option<Big>,
    /// Time in the device.
    Option<Big>,
    /// Requests in the device, error code, requeues.
    (u32, i32, u32),
    RequestCoverage,
    Vec<RawBio>,
);

/// A part of a request.
#[derive(Debug, Serialize, Deserialize)]
struct RawBio(
    /// Time, relative to the profile's time 0.
    Big,
    /// Process id, thread id and thread name.
    (u32, u32, String),
    /// Number of the thread in the tables.
    Option<u32>,
    /// Row of the stack table.
    Option<u32>,
    /// Sector.
    Big,
    /// Bytes.
    u32,
    /// File.
    Option<u32>,
    /// Offset in the file.
    Option<Big>,
    BioSource,
    /// Whether it was submitted in a page fault.
    bool,
    /// System call in which it was submitted.
    Option<u32>,
);

/// Flag bits, from the lowest: read-ahead, sync, metadata, through the cache, scheduled, without
/// requests.
fn bits(request: &RequestFact) -> u32 {
    let RequestKind {
        read_ahead,
        sync,
        metadata,
        fua,
    } = request.kind;
    let flags = [read_ahead, sync, metadata, fua, request.scheduled, request.bio_only];
    flags
        .into_iter()
        .zip(0..)
        .fold(0, |bits, (flag, bit)| bits | u32::from(flag) << bit)
}

impl RawRequest {
    /// Converts a request.
    pub fn new(request: &RequestFact, shared: &Shared<'_>, zero: Timestamp) -> Self {
        let row = |stack: Option<StackId>| stack.and_then(|stack| shared.stack_row(stack));
        let bio = |bio: &BioFact| {
            RawBio(
                Big(bio.time.0.saturating_sub(zero.0)),
                (bio.pid, bio.tid, bio.name.clone()),
                bio.thread.map(|thread| thread.0),
                row(bio.stack),
                Big(bio.sector),
                bio.bytes,
                bio.file.map(|file| file.0),
                bio.offset.map(Big),
                bio.source,
                bio.in_fault,
                bio.call,
            )
        };
        Self(
            Big(request.start.0.saturating_sub(zero.0)),
            big(request.end.since(request.start)),
            request.device.0,
            Big(request.sector),
            request.bytes,
            request.operation,
            bits(request),
            request.queued.map(big),
            request.service.map(big),
            (request.depth, request.error, request.requeues),
            request.coverage,
            request.bios.iter().map(bio).collect(),
        )
    }

    /// Converts back to the request.
    pub fn fact(&self, zero: Timestamp, (tables, rows): (&Tables, &StackRows)) -> Result<RequestFact, ReadError> {
        let Self(start, length, device, sector, bytes, operation, flags, queued, service, counts, coverage, bios) =
            self;
        let start = after(zero, *start)?;
        let flag = |bit: u32| flags >> bit & 1 == 1;
        let device = DeviceId(*device);
        if device.index() >= tables.devices.len() || *flags >= 1 << 6 {
            return Err(damaged());
        }
        let bios: Result<Vec<BioFact>, ReadError> = bios.iter().map(|bio| bio.fact(zero, (tables, rows))).collect();
        Ok(RequestFact {
            start,
            end: after(start, *length)?,
            device,
            sector: sector.0,
            bytes: *bytes,
            operation: *operation,
            kind: RequestKind {
                read_ahead: flag(0),
                sync: flag(1),
                metadata: flag(2),
                fua: flag(3),
            },
            queued: queued.map(duration),
            service: service.map(duration),
            scheduled: flag(4),
            depth: counts.0,
            error: counts.1,
            requeues: counts.2,
            coverage: *coverage,
            bio_only: flag(5),
            bios: bios?,
        })
    }
}

impl RawBio {
    fn fact(&self, zero: Timestamp, (tables, rows): (&Tables, &StackRows)) -> Result<BioFact, ReadError> {
        let Self(time, (pid, tid, name), thread, stack, sector, bytes, file, offset, source, in_fault, call) = self;
        let thread = thread.map(ThreadId);
        let file = file.map(MappedFileId);
        let fits = thread.is_none_or(|thread| thread.index() < tables.threads.len())
            && file.is_none_or(|file| file.index() < tables.files.len());
        if !fits {
            return Err(damaged());
        }
        Ok(BioFact {
            time: after(zero, *time)?,
            pid: *pid,
            tid: *tid,
            name: name.clone(),
            thread,
            stack: rows.stack(stack.map(i64::from))?,
            sector: sector.0,
            bytes: *bytes,
            file,
            offset: offset.map(|offset| offset.0),
            source: *source,
            in_fault: *in_fault,
            call: *call,
        })
    }
}

fn damaged() -> ReadError {
    ReadError::Damaged("list of requests")
}

fn after(time: Timestamp, more: Big) -> Result<Timestamp, ReadError> {
    time.0.checked_add(more.0).map(Timestamp).ok_or_else(damaged)
}
