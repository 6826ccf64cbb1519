//! Export with one row per wait, as CSV and newline-delimited JSON with the same columns.

use super::causes::{Causes, Due};
use super::report::WakerKey;
use super::view::View;
use crate::export::{Cell, Type, ns};
use crate::functions::outermost_first;
use fact::wait::Coverage;
use fact::{EffectKind, StackId, WaitFact};

/// Column names in order; new columns are appended.
pub const COLUMNS: [&str; 32] = [
    "time_ns",
    "pid",
    "tid",
    "reason",
    "off_ns",
    "queued_ns",
    "count",
    "call",
    "file",
    "path",
    "waker_pid",
    "waker_tid",
    "waker",
    "function",
    "stack",
    "process",
    "thread",
    "end_ns",
    "longest_ns",
    "sight",
    "in_fault",
    "woken_ns",
    "waker_function",
    "waker_stack",
    "cause",
    "cause_device",
    "cause_sector",
    "cause_bytes",
    "cause_file",
    "cause_offset",
    "cause_tid",
    "stack_complete",
];

/// Type of each column.
pub const TYPES: [Type; COLUMNS.len()] = {
    use Type::{Flag, Id, Number, Text};
    [
        Number, Number, Number, Text, Number, Number, Number, Text, Text, Text, Number, Number, Text, Text, Text, Text,
        Text, Number, Number, Text, Flag, Number, Text, Text, Text, Text, Id, Number, Text, Number, Number, Flag,
    ]
};

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
        let paths = view.tables.files.iter().map(fact::MappedFile::display_path);
        Self {
            view,
            paths: paths.collect(),
            causes: view.causes(),
        }
    }

    /// The cells of a wait, in the order of [`COLUMNS`]. Waits must be passed in the order of their start times.
    pub fn row<'r>(&'r mut self, wait: &'r WaitFact) -> [Cell<'r>; COLUMNS.len()] {
        let due = self.causes.of(wait);
        let view = self.view;
        let (thread, process) = (view.thread(wait.thread), view.process(wait.thread));
        let call = wait.call.as_ref();
        let file = call.and_then(|call| self.paths.get(call.file?.index()));
        let waker = wait.waker.as_ref();
        let waker_stack = waker.and_then(|waker| waker.stack);
        let [cause, device, sector, bytes, cause_file, offset, cause_tid] = self.cause(due);
        [
            Cell::Number(view.time_ns(wait.start)),
            Cell::number(process.map(|process| process.pid)),
            Cell::number(thread.map(|thread| thread.tid)),
            Cell::Text(wait.reason.name().into()),
            Cell::Number(ns(wait.off)),
            Cell::Number(ns(wait.queued)),
            Cell::number(Some(wait.count)),
            Cell::text(call.map(|call| call.name.as_str())),
            Cell::text(file.map(String::as_str)),
            Cell::text(call.and_then(|call| call.path.as_deref())),
            Cell::number(waker.map(|waker| waker.pid)),
            Cell::number(waker.map(|waker| waker.tid)),
            self.waker(wait),
            Cell::text(view.function_name(wait.stack)),
            self.stack(wait.stack),
            Cell::text(process.map(|process| process.name.as_str())),
            Cell::text(thread.map(|thread| thread.name.as_str())),
            Cell::Number(view.time_ns(wait.end)),
            Cell::Number(ns(wait.longest)),
            Cell::Text(coverage(wait.coverage).into()),
            Cell::Flag(wait.in_fault),
            Cell::number(waker.map(|waker| view.time_ns(waker.time))),
            Cell::text(view.function_name(waker_stack)),
            self.stack(waker_stack),
            cause,
            device,
            sector,
            bytes,
            cause_file,
            offset,
            cause_tid,
            wait.stack
                .map_or(Cell::None, |stack| Cell::Flag(view.is_complete(stack))),
        ]
    }

    fn waker<'r>(&'r self, wait: &WaitFact) -> Cell<'r> {
        match WakerKey::of(wait.waker.as_ref()) {
            WakerKey::Thread(id) => Cell::text(self.view.thread(id).map(|thread| thread.name.as_str())),
            WakerKey::Interrupt => Cell::Text("interrupt".into()),
            WakerKey::Unrecorded(..) | WakerKey::Unknown => Cell::None,
        }
    }

    fn stack(&self, stack: Option<StackId>) -> Cell<'static> {
        stack.map_or(Cell::None, |stack| {
            Cell::Text(outermost_first(self.view.tables, stack).into())
        })
    }

    /// Cells of the cause: a request, or a fault or wait of the thread that held the lock.
    fn cause(&self, due: Option<Due>) -> [Cell<'_>; 7] {
        let none = || Cell::None;
        let tables = self.view.tables;
        match due {
            None => [none(), none(), none(), none(), none(), none(), none()],
            Some(Due::Request(request)) => {
                let device = tables.devices.get(request.device.index());
                let by = request.by.and_then(|thread| self.view.thread(thread));
                [
                    Cell::Text("request".into()),
                    Cell::text(device.map(|device| device.name.as_str())),
                    Cell::Number(request.sector),
                    Cell::Number(u64::from(request.bytes)),
                    Cell::text(
                        request
                            .file
                            .and_then(|file| self.paths.get(file.index()))
                            .map(String::as_str),
                    ),
                    Cell::number(request.offset),
                    Cell::number(by.map(|thread| thread.tid)),
                ]
            }
            Some(Due::Holder(thread, kind)) => {
                let kind = match kind {
                    EffectKind::Fault => "holder's fault",
                    EffectKind::Wait => "holder's wait",
                };
                let thread = self.view.thread(thread);
                let tid = Cell::number(thread.map(|thread| thread.tid));
                [Cell::Text(kind.into()), none(), none(), none(), none(), none(), tid]
            }
        }
    }
}

fn coverage(coverage: Coverage) -> &'static str {
    match coverage {
        Coverage::Full => "whole",
        Coverage::StackReused => "like-earlier",
        Coverage::StartMissed => "no-start",
        Coverage::EndMissed => "no-end",
    }
}
