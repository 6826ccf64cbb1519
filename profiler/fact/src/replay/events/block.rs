//! Converts events of bios, requests and devices to facts.

use std::time::Duration;

use profiler_common::block::{
    BIO_CACHED, BIO_DEVICE, BIO_DIRECT, BIO_HAS_OFFSET, BIO_IN_CALL, BIO_IN_FAULT, BIO_RECORDED, BIO_SWAP,
    REQUEST_BIO_ONLY, REQUEST_UNFINISHED, REQUEST_UNSEEN_START, SECTOR, operation,
};
use rustc_hash::FxHashMap;

use super::Replay;
use crate::prune::Visit;
use crate::replay::blocks::{Blocks, Unfinished};
use crate::request::{BioSource, BlockDevice, DeviceId, Operation, RequestCoverage, RequestKind};
use crate::{BioFact, RequestFact, Tables, WaitFact};
use base::addr::{PAGE, Timestamp};
use base::event::{At, Bio, Device, DeviceName, Request};

/// Maximum number of devices; on a machine with more, the last ones share an id.
const MAX_DEVICES: usize = 1 << 16;
/// A bio that was in flight for longer when the recording ended is considered lost.
const LOST: Duration = Duration::from_mins(1);

/// What is known about bios and devices so far.
#[derive(Default)]
pub(super) struct State {
    blocks: Blocks,
    devices: FxHashMap<Device, DeviceId>,
}

impl State {
    /// Visits the stacks that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        self.blocks.visit(visit);
    }

    /// The device's id; its name consists of its numbers until it is known.
    fn device(&mut self, tables: &mut Tables, device: Device) -> DeviceId {
        if let Some(id) = self.devices.get(&device) {
            return *id;
        }
        let next = tables.devices.len();
        if next >= MAX_DEVICES {
            return DeviceId(u32::try_from(next - 1).unwrap_or(u32::MAX));
        }
        let id = DeviceId(u32::try_from(next).unwrap_or(u32::MAX));
        tables.devices.push(BlockDevice {
            major: device.major,
            minor: device.minor,
            name: format!("{}:{}", device.major, device.minor),
            counted: Vec::new(),
        });
        self.devices.insert(device, id);
        id
    }
}

impl Replay<'_, '_> {
    pub(super) fn device_name(&mut self, name: &DeviceName) {
        let id = self.block.device(&mut self.tables, name.device);
        let Some(device) = self.tables.devices.get_mut(id.index()) else {
            return;
        };
        if !name.name.is_empty() {
            device.name.clone_from(&name.name);
        }
        let both = name.before.iter().zip(&name.after);
        device.counted = both.map(|(before, after)| after.saturating_sub(*before)).collect();
    }

    pub(super) fn bio(&mut self, bio: &Bio) {
        let is_recorded = bio.flags & BIO_RECORDED != 0;
        let thread = is_recorded.then(|| self.tasks.thread_at(&bio.at));
        let stack = thread.and_then(|_| self.stack_ahead(bio.at.time, bio.at.tid).flatten());
        let source = source(bio);
        let file = bio.file.filter(|_| source != BioSource::Metadata);
        let (files, list) = (&self.tasks.files, &mut self.tables.files);
        let file = file.and_then(|file| self.files.of_file(list, files, (file, bio.name)));
        let offset = match source {
            BioSource::Cache => Some(bio.page.saturating_mul(PAGE)),
            BioSource::Direct if bio.flags & BIO_HAS_OFFSET != 0 => Some(bio.page),
            BioSource::Metadata if bio.flags & BIO_DEVICE != 0 => Some(bio.sector.saturating_mul(SECTOR)),
            _ => None,
        };
        let fact = BioFact {
            time: bio.at.time,
            pid: bio.at.pid,
            tid: bio.at.tid,
            name: String::from_utf8_lossy(&bio.comm).into_owned(),
            thread,
            stack,
            sector: bio.sector,
            bytes: bio.bytes,
            file,
            offset,
            source,
            in_fault: bio.flags & BIO_IN_FAULT != 0,
            call: bio.call.filter(|_| bio.flags & BIO_IN_CALL != 0),
        };
        if let Some(thread) = thread {
            self.join.asked(thread, fact.time.max(self.tables.recording.start));
        }
        self.block.blocks.bio(bio.device, bio.operation, fact);
    }

    pub(super) fn request(&mut self, request: &Request) {
        let bios = self.block.blocks.complete(request);
        if request.at.time < self.tables.recording.start {
            return;
        }
        let device = self.block.device(&mut self.tables, request.device);
        let fact = fact(request, self.tables.recording.start, device, bios);
        self.emit_request(&fact);
    }

    /// End of the recording: emits unfinished requests and the remaining causes.
    pub(super) fn finish_requests(&mut self) {
        let blocks = std::mem::take(&mut self.block.blocks);
        let mut lost = blocks.forgotten();
        for mut unfinished in blocks.finish() {
            let end = self.tables.recording.end;
            if end.since(unfinished.bio.time) > LOST {
                lost += 1;
                continue;
            }
            unfinished.bio.time = unfinished.bio.time.max(self.tables.recording.start);
            let device = self.block.device(&mut self.tables, unfinished.device);
            self.emit_request(&unfinished_fact(unfinished, device, end));
        }
        if lost > 0 {
            let note = format!(
                "block I/Os without a completion, missing from all tables: {lost}; check the losses for lost records"
            );
            self.tables.recording.notes.push(note);
        }
        self.join.finish();
        self.emit_causes();
    }

    /// Compares a wait with earlier requests and faults.
    pub(super) fn join_wait(&mut self, wait: &WaitFact) {
        self.join.wait(&self.tables, wait);
        self.emit_causes();
    }

    /// A thread ended.
    pub(super) fn join_end(&mut self, at: &At) {
        let thread = self.tasks.thread_at(at);
        self.join.ended(thread, at.time);
        self.emit_causes();
    }

    /// Emits the causes found so far.
    pub(super) fn emit_causes(&mut self) {
        while let Some(cause) = self.join.take() {
            self.show_tasks();
            self.sink.joined(&self.tables, &cause);
            self.show_tasks();
        }
    }

    fn emit_request(&mut self, fact: &RequestFact) {
        let recording = &mut self.tables.recording;
        recording.requests_seen = recording.requests_seen.saturating_add(1);
        self.show_tasks();
        self.sink.request(&self.tables, fact);
        self.show_tasks();
        self.join.request(&self.tables, fact);
        self.emit_causes();
    }
}

fn fact(request: &Request, beginning: Timestamp, device: DeviceId, mut bios: Vec<BioFact>) -> RequestFact {
    let has = |bit| request.flags & bit != 0;
    let end = request.at.time;
    let first = bios.iter().map(|bio| bio.time).min();
    let times = [request.queued, request.inserted, request.issued, first];
    let was_under_way = times.into_iter().flatten().any(|time| time < beginning);
    let [queued, inserted, issued, first] = times.map(|time| time.filter(|time| *time >= beginning));
    for bio in &mut bios {
        bio.time = bio.time.max(beginning);
    }
    let queued = queued.or(first.filter(|_| !was_under_way));
    // A device without requests gets a bio as soon as it is queued.
    let issued = issued.or(queued.filter(|_| has(REQUEST_BIO_ONLY)));
    let known = [queued, first, inserted, issued, was_under_way.then_some(beginning)];
    RequestFact {
        start: known.into_iter().flatten().min().unwrap_or(end).min(end),
        end,
        device,
        sector: request.sector,
        bytes: request.bytes,
        operation: operation_of(request.operation),
        kind: kind_of(request.operation),
        queued: queued.zip(issued).map(|(queued, issued)| issued.since(queued)),
        service: issued
            .filter(|_| !has(REQUEST_UNFINISHED))
            .map(|issued| end.since(issued)),
        scheduled: request.inserted.is_some(),
        depth: request.depth,
        error: request.error,
        requeues: request.requeues,
        coverage: if has(REQUEST_UNFINISHED) {
            RequestCoverage::EndMissed
        } else if has(REQUEST_UNSEEN_START) || was_under_way {
            RequestCoverage::StartMissed
        } else {
            RequestCoverage::Full
        },
        bio_only: has(REQUEST_BIO_ONLY),
        bios,
    }
}

fn unfinished_fact(unfinished: Unfinished, device: DeviceId, end: Timestamp) -> RequestFact {
    let Unfinished { operation, bio, .. } = unfinished;
    RequestFact {
        start: bio.time,
        end: end.max(bio.time),
        device,
        sector: bio.sector,
        bytes: bio.bytes,
        operation: operation_of(operation),
        kind: kind_of(operation),
        queued: None,
        service: None,
        scheduled: false,
        depth: 0,
        error: 0,
        requeues: 0,
        coverage: RequestCoverage::EndMissed,
        bio_only: false,
        bios: vec![bio],
    }
}

fn source(bio: &Bio) -> BioSource {
    let has = |bit| bio.flags & bit != 0;
    match operation_of(bio.operation) {
        Operation::Read | Operation::Write if bio.bytes > 0 => {}
        _ => return BioSource::Nothing,
    }
    if has(BIO_SWAP) {
        BioSource::Swap
    } else if has(BIO_DEVICE) {
        BioSource::Metadata
    } else if has(BIO_DIRECT) {
        BioSource::Direct
    } else if has(BIO_CACHED) {
        BioSource::Cache
    } else if bio.operation & operation::META != 0 {
        BioSource::Metadata
    } else {
        BioSource::Unknown
    }
}

fn operation_of(operation: u32) -> Operation {
    /// `REQ_OP_ZONE_APPEND`: a write to a location that the device chooses.
    const ZONE_APPEND: u32 = 7;
    match operation & operation::MASK {
        operation::READ => Operation::Read,
        operation::WRITE | ZONE_APPEND => Operation::Write,
        operation::FLUSH => Operation::Flush,
        operation::DISCARD | operation::SECURE_ERASE => Operation::Discard,
        operation::WRITE_ZEROES => Operation::WriteZeroes,
        _ => Operation::Other,
    }
}

fn kind_of(operation: u32) -> RequestKind {
    RequestKind {
        read_ahead: operation & operation::READ_AHEAD != 0,
        sync: operation & operation::SYNC != 0,
        metadata: operation & operation::META != 0,
        fua: operation & (operation::FUA | operation::PREFLUSH) != 0,
    }
}
