//! Collects the document's data from a recording: what `ngmi faults` keeps, disk reads, reads of file pages, and which fault waited for which
//! request.

use std::sync::Arc;

use super::limits;
use crate::export::ns;
use crate::faults;
use crate::sorted::Scratch;
use base::addr::Timestamp;
use fact::fault::MappedFileId;
use fact::request::{DeviceId, Operation, RequestCoverage};
use fact::{
    BioFact, Cause, EffectKind, EventKind, FactSink, FaultFact, Mark, PagesBy, PagesReadFact, ProcessId, Reason,
    RequestFact, SampleFact, Tables, ThreadId,
};

/// The part of a disk read that belongs to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    pub start: Timestamp,
    pub end: Timestamp,
    /// `None` if it was in flight when the recording began or ended.
    pub duration_ns: Option<u64>,
    pub queued_ns: Option<u64>,
    pub device: DeviceId,
    pub sector: u64,
    /// `None` for metadata, swap, or an unknown file.
    pub file: Option<MappedFileId>,
    /// The first byte in the file.
    pub offset: Option<u64>,
    /// The bytes of this file only.
    pub bytes: u64,
    /// The thread that requested it.
    pub thread: Option<ThreadId>,
    pub in_fault: bool,
    pub is_ahead: bool,
}

/// Links a fault to a request that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitedFor {
    pub thread: ThreadId,
    pub start: Timestamp,
    pub device: DeviceId,
    pub sector: u64,
    pub end: Timestamp,
}

/// The facts of a recording that the document needs.
#[derive(Debug, Default)]
pub struct Facts {
    /// The faults, and the fate of each page of the files.
    pub faults: faults::Facts,
    pub(super) reads: Vec<Read>,
    pub(super) pages: Vec<PagesReadFact>,
    pub(super) causes: Vec<WaitedFor>,
}

impl Facts {
    /// An empty collection that keeps faults in memory up to a limit, and further ones in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            faults: faults::Facts::beyond_memory(scratch),
            ..Self::default()
        }
    }
}

impl FactSink for Facts {
    fn wants_stacks(&self, kind: EventKind) -> bool {
        kind == EventKind::Fault
    }

    fn sample(&mut self, tables: &Tables, sample: &SampleFact) {
        self.faults.sample(tables, sample);
    }

    fn mark(&mut self, tables: &Tables, mark: &Mark) {
        self.faults.mark(tables, mark);
    }

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        self.faults.fault(tables, fault);
    }

    fn bss(&mut self, tables: &Tables, fault: &FaultFact, file: MappedFileId) {
        self.faults.bss(tables, fault, file);
    }

    fn pages_read(&mut self, tables: &Tables, read: &PagesReadFact) {
        self.faults.pages_read(tables, read);
        if read.by != PagesBy::Populate && self.pages.len() < limits::ROWS {
            self.pages.push(*read);
        }
    }

    fn process_ended(&mut self, tables: &Tables, process: ProcessId) {
        self.faults.process_ended(tables, process);
    }

    fn request(&mut self, _: &Tables, request: &RequestFact) {
        if request.operation != Operation::Read {
            return;
        }
        let before = self.reads.len();
        let is_full = |reads: &[Read]| reads.len() >= limits::ROWS;
        for bio in &request.bios {
            let of_this = self.reads.iter_mut().skip(before);
            if let Some(read) = of_this.into_iter().find(|read| read.file == bio.file) {
                read.bytes = read.bytes.saturating_add(u64::from(bio.bytes));
                read.offset = read.offset.into_iter().chain(bio.offset).min();
                read.in_fault |= bio.in_fault;
            } else if !is_full(&self.reads) {
                self.reads.push(read(request, Some(bio)));
            }
        }
        if request.bios.is_empty() && !is_full(&self.reads) {
            self.reads.push(read(request, None));
        }
    }

    fn joined(&mut self, _: &Tables, cause: &Cause) {
        if let (EffectKind::Fault, Reason::Request(request)) = (cause.effect.kind, cause.reason)
            && self.causes.len() < limits::ROWS
        {
            self.causes.push(WaitedFor {
                thread: cause.effect.thread,
                start: cause.effect.start,
                device: request.device,
                sector: request.sector,
                end: request.end,
            });
        }
    }
}

fn read(request: &RequestFact, bio: Option<&BioFact>) -> Read {
    Read {
        start: request.start,
        end: request.end,
        duration_ns: (request.coverage == RequestCoverage::Full).then(|| ns(request.end.since(request.start))),
        queued_ns: request.queued.map(ns),
        device: request.device,
        sector: request.sector,
        file: bio.and_then(|bio| bio.file),
        offset: bio.and_then(|bio| bio.offset),
        bytes: u64::from(bio.map_or(request.bytes, |bio| bio.bytes)),
        thread: bio.and_then(|bio| bio.thread),
        in_fault: bio.is_some_and(|bio| bio.in_fault),
        is_ahead: request.kind.read_ahead,
    }
}
