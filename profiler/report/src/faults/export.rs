//! Export of a row per fault: the columns and their values.

use super::view::{View, path_of};
use crate::export::{Cell, Type, hex};
use fact::fault::Access;
use fact::{FaultFact, StackId};

/// Column names in order; new columns are added at the end.
pub const COLUMNS: [&str; 32] = [
    "time_ns",
    "pid",
    "tid",
    "file",
    "offset",
    "section",
    "symbol",
    "class",
    "access",
    "major",
    "waited",
    "latency_ns",
    "address",
    "function",
    "process",
    "thread",
    "in_kernel",
    "failed",
    "lock_ns",
    "disk_ns",
    "other_read_ns",
    "reclaim_ns",
    "blocked_ns",
    "preempted_ns",
    "retries",
    "pages_around",
    "pages_read",
    "device",
    "inode",
    "build_id",
    "stack_complete",
    "phase",
];

/// The type of each column.
pub const TYPES: [Type; COLUMNS.len()] = {
    use Type::{Flag, Id, Number, Text};
    [
        Number, Number, Number, Text, Number, Text, Text, Text, Text, Flag, Flag, Number, Text, Text, Text, Text, Flag,
        Text, Number, Number, Number, Number, Number, Number, Number, Number, Number, Text, Id, Text, Flag, Text,
    ]
};

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
        let file = |file: &fact::MappedFile| {
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
            *known = self.view.is_complete(stack);
        }
        *known
    }

    /// The row of a fault, in the order of [`COLUMNS`].
    pub fn row(&mut self, fault: &FaultFact) -> [Cell<'_>; COLUMNS.len()] {
        let complete = self.is_complete(fault.stack);
        let view = self.view;
        let place = fault.place;
        let file = place.and_then(|place| self.files.get(place.file.index()));
        let id = place.and_then(|place| view.file(place)).map(|file| file.id);
        let (thread, process) = (view.thread(fault), view.process(fault));
        let waits = &fault.waits;
        [
            Cell::Number(view.time_ns(fault)),
            Cell::number(process.map(|process| process.pid)),
            Cell::number(thread.map(|thread| thread.tid)),
            Cell::text(file.map(|(path, _)| path.as_str())),
            Cell::number(place.map(|place| place.offset.0)),
            Cell::text(view.section(fault)),
            Cell::text(view.symbol(fault)),
            Cell::Text(fault.class.name().into()),
            Cell::text(access(fault.access)),
            Cell::Flag(fault.major),
            waited(fault),
            Cell::time(fault.latency),
            Cell::Text(format!("{:#x}", fault.address.0).into()),
            Cell::text(view.function_name(fault)),
            Cell::text(process.map(|process| process.name.as_str())),
            Cell::text(thread.map(|thread| thread.name.as_str())),
            Cell::Flag(fault.in_kernel),
            Cell::text(fault.failed.map(fact::fault::Failure::name)),
            Cell::time(waits.lock),
            Cell::time(waits.disk),
            Cell::time(waits.other_read),
            Cell::time(waits.reclaim),
            Cell::time(waits.blocked),
            Cell::time(waits.preempted),
            Cell::number(fault.retries),
            Cell::number(fault.around.map(|around| around.count)),
            Cell::Number(u64::from(fault.pages_read)),
            id.map_or(Cell::None, |id| Cell::Text(format!("{}:{}", id.major, id.minor).into())),
            Cell::number(id.map(|id| id.inode)),
            Cell::text(file.and_then(|(_, build_id)| build_id.as_deref())),
            complete.map_or(Cell::None, Cell::Flag),
            Cell::text(view.phase(fault).map(super::phase::Phase::name)),
        ]
    }
}

/// Whether the fault waited for a read; unknown if such waits were not measured.
fn waited(fault: &FaultFact) -> Cell<'static> {
    let waits = &fault.waits;
    if waits.disk.is_none() && waits.other_read.is_none() {
        return Cell::None;
    }
    Cell::Flag(fault.waited())
}

fn access(access: Access) -> Option<&'static str> {
    match access {
        Access::Read => Some("read"),
        Access::Write => Some("write"),
        Access::Execute => Some("execute"),
        Access::Unknown => None,
    }
}
