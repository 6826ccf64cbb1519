//! Columns of the export with one row per request.

use super::report::main_part;
use super::rows::{Asked, Part};
use super::view::View;
use crate::export::{Cell, columns};
use crate::lookup::Lookup as _;
use crate::owner::OwnerCells;
use fact::request::BlockDevice;
use fact::{MappedFile, Process, RequestFact, Thread};

/// A request and what it refers to. Of several parts, the row shows the one with the most bytes.
struct IoRow<'q, 'r> {
    view: &'r View<'r>,
    request: &'q RequestFact,
    waited_ns: u64,
    parts: usize,
    part: Option<&'q Part>,
    device: Option<&'r BlockDevice>,
    file: Option<&'r MappedFile>,
    thread: Option<&'r Thread>,
    process: Option<&'r Process>,
    /// The name of a submitter that is not recorded.
    name: Option<&'r str>,
    owner: OwnerCells<'r>,
}

columns! {
    fn cells<'r>(row: &IoRow<'_, 'r>);
    "time_ns": Number = row.view.tables.time_ns(row.request.start);
    "pid": Number = row.part.map(|part| part.pid);
    "tid": Number = row.part.map(|part| part.tid);
    "device": Text = row.device.map(|device| device.name.as_str());
    "sector": Id = row.request.sector;
    "operation": Text = row.request.operation.name();
    "bytes": Number = row.request.bytes;
    "file": Text = row.part.and_then(|part| row.view.path_of(part.file?));
    "offset": Number = row.part.and_then(|part| part.offset);
    "queue_ns": Number = row.request.queued;
    "service_ns": Number = row.request.service;
    "function": Text = row.part.and_then(|part| row.view.place_name(row.view.place(part)));
    "process": Text = row.process.map(|process| process.name.as_str()).or(row.name);
    "thread": Text = row.thread.map(|thread| thread.name.as_str()).or(row.name);
    "end_ns": Number = row.view.tables.time_ns(row.request.end);
    "waited_ns": Number = (row.waited_ns > 0).then_some(row.waited_ns);
    "source": Text = row.part.map(|part| part.source.name());
    "in_fault": Flag = row.part.map(|part| part.in_fault);
    "call": Number = row.part.and_then(|part| part.call);
    "read_ahead": Flag = row.request.kind.read_ahead;
    "sync": Flag = row.request.kind.sync;
    "metadata": Flag = row.request.kind.metadata;
    "fua": Flag = row.request.kind.fua;
    "scheduled": Flag = row.request.scheduled;
    "depth": Number = (row.request.depth > 0).then_some(row.request.depth);
    "requeues": Number = row.request.requeues;
    "error": Text = error(row.request);
    "bios": Number = row.parts as u64;
    "seen": Text = row.request.coverage.name();
    "bio_only": Flag = row.request.bio_only;
    "stacked": Flag = row.device.map(BlockDevice::is_stacked);
    "file_device": Text = row.file.map(|file| format!("{}:{}", file.id.major, file.id.minor));
    "inode": Id = row.file.map(|file| file.id.inode);
    "stack_complete": Flag = row.view.tables.is_complete(row.part.and_then(|part| part.stack));
    "cgroup": Text = row.owner.cgroup();
    "cgroup_inherited": Flag = row.owner.is_inherited();
    "unit": Text = row.owner.unit();
    "container": Text = row.owner.container();
    "container_id": Text = row.owner.container_id();
    "pod": Text = row.owner.pod();
}

/// The cells of a request, in the order of [`COLUMNS`].
pub fn row<'r>(view: &'r View<'_>, asked: &Asked) -> [Cell<'r>; COLUMNS.len()] {
    let part = main_part(&asked.parts);
    let tables = view.tables;
    let thread = part.and_then(|part| part.thread);
    cells(&IoRow {
        view,
        request: &asked.request,
        waited_ns: asked.waited_ns,
        parts: asked.parts.len(),
        part,
        device: tables.devices.get(asked.request.device.index()),
        file: part.and_then(|part| tables.files.get(part.file?.index())),
        thread: thread.and_then(|thread| tables.thread(thread)),
        process: thread.and_then(|thread| tables.process(thread)),
        name: part
            .and_then(|part| view.facts.names.get(part.name as usize))
            .map(String::as_str),
        owner: OwnerCells::new(tables, &view.owners, thread),
    })
}

/// The error number; empty if there is none.
fn error(request: &RequestFact) -> String {
    match request.error {
        0 => String::new(),
        error => error.to_string(),
    }
}
