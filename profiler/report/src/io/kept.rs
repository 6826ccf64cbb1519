//! Compact rows that hold requests until names are known: 72 bytes per request, 64 per part, and 40 per wait for a
//! request. All three are ordered by the start of the request, which lets them be merged in one pass.

use std::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::rows::{Asked, Part};
use crate::sorted::{Merge, Row, SideTable};
use base::addr::{Timestamp, ns};
use fact::reduce::packed::{among, place};
use fact::request::{BioSource, DeviceId, Operation, RequestCoverage, RequestKind};
use fact::{MappedFileId, RequestFact, RequestRef, StackId, ThreadId};

/// Encodes a missing value.
const NONE: u32 = u32::MAX;

/// A request without its bios.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct RequestRow {
    start: u64,
    end: u64,
    sector: u64,
    queued: u64,
    service: u64,
    device: u32,
    bytes: u32,
    depth: u32,
    requeues: u32,
    error: i32,
    /// Number of part rows that belong to the request.
    parts: u32,
    /// Index into [`Operation::ALL`]; `coverage` is an index into [`RequestCoverage::ALL`].
    operation: u8,
    coverage: u8,
    /// Bit set in the layout of [`RequestRow::flags`].
    flags: u8,
    rest: [u8; 5],
}

/// A part of a request.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct PartRow {
    /// Start of the request.
    start: u64,
    time: u64,
    offset: u64,
    pid: u32,
    tid: u32,
    name: u32,
    thread: u32,
    stack: u32,
    bytes: u32,
    file: u32,
    call: u32,
    /// Index into [`BioSource::ALL`].
    source: u8,
    in_fault: u8,
    has_offset: u8,
    rest: [u8; 5],
}

/// A thread's wait for a request.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct WaitedRow {
    start: u64,
    end: u64,
    sector: u64,
    waited_ns: u64,
    device: u32,
    rest: u32,
}

impl Row for RequestRow {
    fn key(&self) -> u64 {
        self.start
    }
}

impl Row for PartRow {
    fn key(&self) -> u64 {
        self.start
    }
}

impl Row for WaitedRow {
    fn key(&self) -> u64 {
        self.start
    }
}

impl RequestRow {
    pub fn new(request: &RequestFact) -> Self {
        let time = |time: Option<Duration>| time.map_or(0, ns);
        Self {
            start: request.start.0,
            end: request.end.0,
            sector: request.sector,
            queued: time(request.queued),
            service: time(request.service),
            device: request.device.0,
            bytes: request.bytes,
            depth: request.depth,
            requeues: request.requeues,
            error: request.error,
            parts: u32::try_from(request.bios.len()).unwrap_or(u32::MAX),
            operation: place(&Operation::ALL, &request.operation),
            coverage: place(&RequestCoverage::ALL, &request.coverage),
            flags: Self::flags(request),
            rest: [0; 5],
        }
    }

    fn flags(request: &RequestFact) -> u8 {
        let kind = request.kind;
        let bits = [
            request.scheduled,
            request.bio_only,
            kind.read_ahead,
            kind.sync,
            kind.metadata,
            kind.fua,
            request.queued.is_some(),
            request.service.is_some(),
        ];
        bits.iter().rev().fold(0, |flags, bit| flags << 1 | u8::from(*bit))
    }

    fn request(&self) -> RequestFact {
        let has = |bit: u32| self.flags >> bit & 1 != 0;
        RequestFact {
            start: Timestamp(self.start),
            end: Timestamp(self.end),
            device: DeviceId(self.device),
            sector: self.sector,
            bytes: self.bytes,
            operation: among(&Operation::ALL, self.operation),
            kind: RequestKind {
                read_ahead: has(2),
                sync: has(3),
                metadata: has(4),
                fua: has(5),
            },
            queued: has(6).then_some(Duration::from_nanos(self.queued)),
            service: has(7).then_some(Duration::from_nanos(self.service)),
            scheduled: has(0),
            depth: self.depth,
            error: self.error,
            requeues: self.requeues,
            coverage: among(&RequestCoverage::ALL, self.coverage),
            bio_only: has(1),
            bios: Vec::new(),
        }
    }
}

impl PartRow {
    /// Packs a part of the request that started at `start`.
    pub fn new(start: Timestamp, part: &Part) -> Self {
        Self {
            start: start.0,
            time: part.time.0,
            offset: part.offset.unwrap_or_default(),
            pid: part.pid,
            tid: part.tid,
            name: part.name,
            thread: part.thread.map_or(NONE, |thread| thread.0),
            stack: part.stack.map_or(NONE, StackId::number),
            bytes: part.bytes,
            file: part.file.map_or(NONE, |file| file.0),
            call: part.call.unwrap_or(NONE),
            source: place(&BioSource::ALL, &part.source),
            in_fault: part.in_fault.into(),
            has_offset: part.offset.is_some().into(),
            rest: [0; 5],
        }
    }

    fn part(&self) -> Part {
        let some = |number: u32| (number != NONE).then_some(number);
        Part {
            time: Timestamp(self.time),
            pid: self.pid,
            tid: self.tid,
            name: self.name,
            thread: some(self.thread).map(ThreadId),
            stack: some(self.stack).map(StackId::new),
            bytes: self.bytes,
            file: some(self.file).map(MappedFileId),
            offset: (self.has_offset != 0).then_some(self.offset),
            source: among(&BioSource::ALL, self.source),
            in_fault: self.in_fault != 0,
            call: some(self.call),
        }
    }
}

impl WaitedRow {
    pub fn new(request: &RequestRef, waited: Duration) -> Self {
        Self {
            start: request.start.0,
            end: request.end.0,
            sector: request.sector,
            waited_ns: ns(waited),
            device: request.device.0,
            rest: 0,
        }
    }

    fn is_for(&self, request: &RequestRow) -> bool {
        (self.device, self.sector, self.end) == (request.device, request.sector, request.end)
    }
}

/// Iterator over requests by start time, with their parts and waits.
#[derive(Debug)]
pub(super) struct Requests<'r> {
    rows: Merge<'r, RequestRow>,
    /// In the order of their requests: rows with the same start keep their insertion order.
    parts: Merge<'r, PartRow>,
    waited: SideTable<'r, WaitedRow>,
}

impl<'r> Requests<'r> {
    pub fn new(rows: Merge<'r, RequestRow>, parts: Merge<'r, PartRow>, waited: Merge<'r, WaitedRow>) -> Self {
        Self {
            rows,
            parts,
            waited: SideTable::new(waited),
        }
    }

    fn waited_ns(&mut self, request: &RequestRow) -> u64 {
        let own = self.waited.of(request.start).iter().filter(|row| row.is_for(request));
        own.fold(0, |sum, row| sum.saturating_add(row.waited_ns))
    }
}

impl Iterator for Requests<'_> {
    type Item = Asked;

    fn next(&mut self) -> Option<Asked> {
        let row = self.rows.next()?;
        let parts = self.parts.by_ref().take(row.parts as usize);
        Some(Asked {
            parts: parts.map(|part| part.part()).collect(),
            request: row.request(),
            waited_ns: self.waited_ns(&row),
        })
    }
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
