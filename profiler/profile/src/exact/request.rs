//! Block requests in the profile's `ngmi` section, bit-exact: an array for each; times are relative
//! to the profile's time 0.

use serde::{Deserialize, Serialize};

use super::Big;
use super::references::References;
use crate::error::ReadError;
use crate::shared::Shared;
use base::addr::Timestamp;
use fact::request::{BioFact, BioSource, Operation, RequestCoverage, RequestFact, RequestKind};
use fact::{DeviceId, MappedFileId, ThreadId};

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub struct RawRequest(
    /// Start, relative to time 0.
    Big,
    /// End, relative to the start.
    Big,
    DeviceId,
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
    Option<ThreadId>,
    /// Row of the stack table.
    Option<u32>,
    /// Sector.
    Big,
    /// Bytes.
    u32,
    Option<MappedFileId>,
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
        let bio = |bio: &BioFact| {
            RawBio(
                Big::since(bio.time, zero),
                (bio.pid, bio.tid, bio.name.clone()),
                bio.thread,
                shared.stack_row(bio.stack),
                Big(bio.sector),
                bio.bytes,
                bio.file,
                bio.offset.map(Big),
                bio.source,
                bio.in_fault,
                bio.call,
            )
        };
        Self(
            Big::since(request.start, zero),
            request.end.since(request.start).into(),
            request.device,
            Big(request.sector),
            request.bytes,
            request.operation,
            bits(request),
            request.queued.map(Big::from),
            request.service.map(Big::from),
            (request.depth, request.error, request.requeues),
            request.coverage,
            request.bios.iter().map(bio).collect(),
        )
    }

    /// Converts back to the request.
    pub fn fact(&self, to: References<'_>) -> Result<RequestFact, ReadError> {
        let Self(start, length, device, sector, bytes, operation, flags, queued, service, counts, coverage, bios) =
            self;
        let start = to.time(*start)?;
        let flag = |bit: u32| flags >> bit & 1 == 1;
        if *flags >= 1 << 6 {
            return Err(to.damaged());
        }
        Ok(RequestFact {
            start,
            end: to.after(start, *length)?,
            device: to.device(*device)?,
            sector: sector.0,
            bytes: *bytes,
            operation: *operation,
            kind: RequestKind {
                read_ahead: flag(0),
                sync: flag(1),
                metadata: flag(2),
                fua: flag(3),
            },
            queued: queued.map(Big::duration),
            service: service.map(Big::duration),
            scheduled: flag(4),
            depth: counts.0,
            error: counts.1,
            requeues: counts.2,
            coverage: *coverage,
            bio_only: flag(5),
            bios: bios.iter().map(|bio| bio.fact(to)).collect::<Result<_, _>>()?,
        })
    }
}

impl RawBio {
    fn fact(&self, to: References<'_>) -> Result<BioFact, ReadError> {
        let Self(time, (pid, tid, name), thread, stack, sector, bytes, file, offset, source, in_fault, call) = self;
        Ok(BioFact {
            time: to.time(*time)?,
            pid: *pid,
            tid: *tid,
            name: name.clone(),
            thread: thread.map(|thread| to.thread(thread)).transpose()?,
            stack: to.stack(*stack)?,
            sector: sector.0,
            bytes: *bytes,
            file: to.file(*file)?,
            offset: offset.map(|offset| offset.0),
            source: *source,
            in_fault: *in_fault,
            call: *call,
        })
    }
}
