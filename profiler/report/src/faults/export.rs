//! Export of a row per fault: the columns and their values.

use super::phase::Phase;
use super::view::{View, path_of};
use crate::export::{Cell, columns, ns};
use crate::lookup::Lookup as _;
use crate::owner::OwnerCells;
use base::event::FileId;
use base::hex::hex;
use fact::fault::{Access, Failure, Mapped};
use fact::{FaultFact, MappedFile, Process, StackId, Thread};

/// A fault and what it refers to.
struct FaultRow<'r> {
    view: &'r View<'r>,
    fault: &'r FaultFact,
    thread: Option<&'r Thread>,
    process: Option<&'r Process>,
    file: Option<&'r (String, Option<String>)>,
    id: Option<FileId>,
    is_complete: Option<bool>,
    owner: OwnerCells<'r>,
}

columns! {
    fn cells<'r>(row: &FaultRow<'r>);
    "time_ns": Number = row.view.tables.time_ns(row.fault.start);
    "pid": Number = row.process.map(|process| process.pid);
    "tid": Number = row.thread.map(|thread| thread.tid);
    "file": Text = row.file.map(|(path, _)| path.as_str());
    "offset": Number = row.fault.place.map(|place| place.offset.0);
    "section": Text = row.view.section(row.fault);
    "symbol": Text = row.view.symbol(row.fault);
    "class": Text = row.fault.class.name();
    "access": Text = (row.fault.access != Access::Unknown).then(|| row.fault.access.name());
    "major": Flag = row.fault.major;
    "waited": Flag = waited(row.fault);
    "latency_ns": Number = row.fault.latency;
    "address": Text = format!("{:#x}", row.fault.address.0);
    "function": Text = row.view.function_name(row.fault);
    "process": Text = row.process.map(|process| process.name.as_str());
    "thread": Text = row.thread.map(|thread| thread.name.as_str());
    "in_kernel": Flag = row.fault.in_kernel;
    "failed": Text = row.fault.failed.map(Failure::name);
    "lock_ns": Number = row.fault.waits.lock;
    "disk_ns": Number = row.fault.waits.disk;
    "other_read_ns": Number = row.fault.waits.other_read;
    "reclaim_ns": Number = row.fault.waits.reclaim;
    "blocked_ns": Number = row.fault.waits.blocked;
    "preempted_ns": Number = row.fault.waits.preempted;
    "retries": Number = row.fault.retries.map(u64::from);
    "pages_around": Number = row.fault.mapped.map(Mapped::others);
    "pages_read": Number = u64::from(row.fault.pages_read);
    "device": Text = row.id.map(|id| format!("{}:{}", id.major, id.minor));
    "inode": Id = row.id.map(|id| id.inode);
    "build_id": Text = row.file.and_then(|(_, build_id)| build_id.as_deref());
    "stack_complete": Flag = row.is_complete;
    "phase": Text = row.view.phase(row.fault).map(Phase::name);
    "represents": Number = row.fault.count();
    "represented_ns": Number = ns(row.fault.total_time());
    "cgroup": Text = row.owner.cgroup();
    "cgroup_inherited": Flag = row.owner.is_inherited();
    "unit": Text = row.owner.unit();
    "container": Text = row.owner.container();
    "container_id": Text = row.owner.container_id();
    "pod": Text = row.owner.pod();
}

/// Converts faults to rows.
#[derive(Debug)]
pub struct Exporter<'v, 'a> {
    view: &'v View<'a>,
    /// Path and build id of each file.
    files: Vec<(String, Option<String>)>,
    /// A cache of which stacks are complete.
    complete: Vec<Option<bool>>,
}

impl<'v, 'a> Exporter<'v, 'a> {
    /// An exporter for the faults of `view`.
    pub fn new(view: &'v View<'a>) -> Self {
        let file = |file: &MappedFile| {
            let build_id = hex(&file.build_id);
            (path_of(file), (!build_id.is_empty()).then_some(build_id))
        };
        Self {
            view,
            files: view.tables.files.iter().map(file).collect(),
            complete: vec![None; view.tables.stacks.len()],
        }
    }

    fn is_complete(&mut self, stack: Option<StackId>) -> Option<bool> {
        let known = self.complete.get_mut(stack?.index())?;
        if known.is_none() {
            *known = self.view.tables.is_complete(stack);
        }
        *known
    }

    /// The row of a fault, in the order of [`COLUMNS`].
    pub fn row<'r>(&'r mut self, fault: &'r FaultFact) -> [Cell<'r>; COLUMNS.len()] {
        let is_complete = self.is_complete(fault.stack);
        let view = self.view;
        let place = fault.place;
        cells(&FaultRow {
            view,
            fault,
            thread: view.tables.thread(fault.thread),
            process: view.tables.process(fault.thread),
            file: place.and_then(|place| self.files.get(place.file.index())),
            id: place.and_then(|place| view.file(place)).map(|file| file.id),
            is_complete,
            owner: OwnerCells::new(view.tables, &view.owners, Some(fault.thread)),
        })
    }
}

/// Whether the fault waited for a read; unknown if such waits were not measured.
fn waited(fault: &FaultFact) -> Option<bool> {
    let is_measured = fault.waits.disk.is_some() || fault.waits.other_read.is_some();
    is_measured.then(|| fault.waited())
}
