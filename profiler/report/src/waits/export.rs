//! Export with one row per wait, as CSV and newline-delimited JSON with the same columns.

use super::causes::{Causes, Due, DueRequest};
use super::report::WakerKey;
use super::view::View;
use crate::export::{Cell, columns};
use crate::functions::outermost_first;
use crate::lookup::Lookup as _;
use crate::owner::OwnerCells;
use fact::wait::{WaitCall, WakerFact};
use fact::{EffectKind, LockHolder, MappedFile, MappedFileId, Process, StackId, Thread, WaitFact};

/// A wait and what it refers to.
struct WaitRow<'r> {
    view: &'r View<'r>,
    wait: &'r WaitFact,
    thread: Option<&'r Thread>,
    process: Option<&'r Process>,
    call: Option<&'r WaitCall>,
    waker: Option<&'r WakerFact>,
    due: Option<Due>,
    /// The cause, if it is a request.
    request: Option<DueRequest>,
    paths: &'r [String],
    owner: OwnerCells<'r>,
}

columns! {
    fn cells<'r>(row: &WaitRow<'r>);
    "time_ns": Number = row.view.tables.time_ns(row.wait.start);
    "pid": Number = row.process.map(|process| process.pid);
    "tid": Number = row.thread.map(|thread| thread.tid);
    "reason": Text = row.wait.reason.name();
    "off_ns": Number = row.wait.off;
    "queued_ns": Number = row.wait.queued;
    "count": Number = row.wait.count;
    "call": Text = row.call.map(|call| call.name.as_str());
    "file": Text = row.path(row.call.and_then(|call| call.file));
    "path": Text = row.call.and_then(|call| call.path.as_deref());
    "waker_pid": Number = row.waker.map(|waker| waker.pid);
    "waker_tid": Number = row.waker.map(|waker| waker.tid);
    "waker": Text = row.waker_name();
    "function": Text = row.view.function_name(row.wait.stack);
    "stack": Text = row.stack(row.wait.stack);
    "process": Text = row.process.map(|process| process.name.as_str());
    "thread": Text = row.thread.map(|thread| thread.name.as_str());
    "end_ns": Number = row.view.tables.time_ns(row.wait.end);
    "longest_ns": Number = row.wait.longest;
    "sight": Text = row.wait.coverage.name();
    "in_fault": Flag = row.wait.in_fault;
    "woken_ns": Number = row.waker.map(|waker| row.view.tables.time_ns(waker.time));
    "waker_function": Text = row.view.function_name(row.waker.and_then(|waker| waker.stack));
    "waker_stack": Text = row.stack(row.waker.and_then(|waker| waker.stack));
    "cause": Text = row.due.as_ref().map(kind);
    "cause_device": Text = row.device();
    "cause_sector": Id = row.request.map(|request| request.sector);
    "cause_bytes": Number = row.request.map(|request| request.bytes);
    "cause_file": Text = row.path(row.request.and_then(|request| request.file));
    "cause_offset": Number = row.request.and_then(|request| request.offset);
    "cause_tid": Number = row.cause_tid();
    "stack_complete": Flag = row.view.tables.is_complete(row.wait.stack);
    "cgroup": Text = row.owner.cgroup();
    "cgroup_inherited": Flag = row.owner.is_inherited();
    "unit": Text = row.owner.unit();
    "container": Text = row.owner.container();
    "container_id": Text = row.owner.container_id();
    "pod": Text = row.owner.pod();
    "futex": Text = row.wait.futex.map(|futex| format!("{:#x}", futex.address.0));
    "futex_file": Text = row.path(row.futex_place().map(|(file, _)| file));
    "futex_offset": Id = row.futex_place().map(|(_, offset)| offset);
    "reclaim": Text = row.view.limit(row.wait).map(|limit| row.view.limit_words(limit));
    "kernel_lock": Text = row.wait.lock.as_ref().map(|lock| lock.label());
    "kernel_lock_kind": Text = row.wait.lock.as_ref().map(|lock| lock.wanted());
    "holder_pid": Number = row.holder().map(|holder| holder.pid);
    "holder_tid": Number = row.holder().map(|holder| holder.tid);
    "priority": Number = row.wait.priority.and_then(|priority| u64::try_from(priority).ok());
    "futex_symbol": Text = row.wait.futex.and_then(|futex| futex.symbol(&row.view.tables.files));
}

impl<'r> WaitRow<'r> {
    fn path(&self, file: Option<MappedFileId>) -> Option<&'r str> {
        self.paths.get(file?.index()).map(String::as_str)
    }

    fn futex_place(&self) -> Option<(MappedFileId, u64)> {
        self.wait.futex?.place
    }

    fn holder(&self) -> Option<LockHolder> {
        self.wait.lock.as_ref()?.holder
    }

    fn waker_name(&self) -> Option<&'r str> {
        match WakerKey::of(self.waker) {
            WakerKey::Thread(id) => self.view.tables.thread(id).map(|thread| thread.name.as_str()),
            WakerKey::Interrupt => Some("interrupt"),
            WakerKey::Unrecorded(..) | WakerKey::Unknown => None,
        }
    }

    fn stack(&self, stack: Option<StackId>) -> Option<String> {
        stack.map(|stack| outermost_first(self.view.tables, stack))
    }

    fn device(&self) -> Option<&'r str> {
        let device = self.view.tables.devices.get(self.request?.device.index());
        device.map(|device| device.name.as_str())
    }

    /// The thread that submitted the request, or that held the lock.
    fn cause_tid(&self) -> Option<u32> {
        let thread = match self.due? {
            Due::Request(request) => request.by?,
            Due::Holder(thread, _) => thread,
        };
        self.view.tables.thread(thread).map(|thread| thread.tid)
    }
}

/// Turns waits into rows.
#[derive(Debug)]
pub struct Exporter<'v, 'a> {
    view: &'v View<'a>,
    paths: Vec<String>,
    causes: Causes<'v>,
}

impl<'v, 'a> Exporter<'v, 'a> {
    /// Exports the waits of a view.
    pub fn new(view: &'v View<'a>) -> Self {
        Self {
            view,
            paths: view.tables.files.iter().map(MappedFile::display_path).collect(),
            causes: view.causes(),
        }
    }

    /// The cells of a wait, in the order of [`COLUMNS`]. Waits must be passed in the order of their start times.
    pub fn row<'r>(&'r mut self, wait: &'r WaitFact) -> [Cell<'r>; COLUMNS.len()] {
        let due = self.causes.of(wait);
        let tables = self.view.tables;
        cells(&WaitRow {
            view: self.view,
            wait,
            thread: tables.thread(wait.thread),
            process: tables.process(wait.thread),
            call: wait.call.as_ref(),
            waker: wait.waker.as_ref(),
            request: match due {
                Some(Due::Request(request)) => Some(request),
                _ => None,
            },
            due,
            paths: &self.paths,
            owner: OwnerCells::new(tables, &self.view.owners, Some(wait.thread)),
        })
    }
}

fn kind(due: &Due) -> &'static str {
    match due {
        Due::Request(_) => "request",
        Due::Holder(_, EffectKind::Fault) => "holder's fault",
        Due::Holder(_, EffectKind::Wait) => "holder's wait",
    }
}
