//! Columns of the export with one row per request.

use super::report::main_part;
use super::rows::Asked;
use super::view::View;
use crate::export::{Cell, Type};
use fact::request::RequestCoverage;

/// Column names in order; new columns are appended.
pub const COLUMNS: [&str; 34] = [
    "time_ns",
    "pid",
    "tid",
    "device",
    "sector",
    "operation",
    "bytes",
    "file",
    "offset",
    "queue_ns",
    "service_ns",
    "function",
    "process",
    "thread",
    "end_ns",
    "waited_ns",
    "source",
    "in_fault",
    "call",
    "read_ahead",
    "sync",
    "metadata",
    "fua",
    "scheduled",
    "depth",
    "requeues",
    "error",
    "bios",
    "seen",
    "bio_only",
    "stacked",
    "file_device",
    "inode",
    "stack_complete",
];

/// Type of each column.
pub const TYPES: [Type; COLUMNS.len()] = {
    use Type::{Flag, Id, Number, Text};
    [
        Number, Number, Number, Text, Id, Text, Number, Text, Number, Number, Number, Text, Text, Text, Number, Number,
        Text, Flag, Number, Flag, Flag, Flag, Flag, Flag, Number, Number, Text, Number, Text, Flag, Flag, Text, Id,
        Flag,
    ]
};

/// The cells of a request, in the order of [`COLUMNS`]. Of several parts, the row shows the one with the most bytes.
pub fn row<'v>(view: &'v View<'_>, asked: &Asked) -> [Cell<'v>; COLUMNS.len()] {
    let (request, parts) = (&asked.request, &asked.parts);
    let part = main_part(parts);
    let device = view.device(request);
    let file = part.and_then(|part| view.tables.files.get(part.file?.index()));
    let owned = |text: Option<String>| text.map_or(Cell::None, |text| Cell::Text(text.into()));
    let (thread, process) = (
        part.and_then(|part| view.thread(part)),
        part.and_then(|part| view.process(part)),
    );
    let name = part
        .and_then(|part| view.facts.names.get(part.name as usize))
        .map(String::as_str);
    let seen = match request.coverage {
        RequestCoverage::Full => "whole",
        RequestCoverage::StartMissed => "no-start",
        RequestCoverage::EndMissed => "no-end",
    };
    [
        Cell::Number(view.time_ns(request.start)),
        Cell::number(part.map(|part| part.pid)),
        Cell::number(part.map(|part| part.tid)),
        Cell::text(device.map(|device| device.name.as_str())),
        Cell::Number(request.sector),
        Cell::Text(request.operation.name().into()),
        Cell::number(Some(request.bytes)),
        owned(part.and_then(|part| view.path(part))),
        Cell::number(part.and_then(|part| part.offset)),
        Cell::time(request.queued),
        Cell::time(request.service),
        owned(part.and_then(|part| view.place_name(view.place(part)))),
        Cell::text(process.map(|process| process.name.as_str()).or(name)),
        Cell::text(thread.map(|thread| thread.name.as_str()).or(name)),
        Cell::Number(view.time_ns(request.end)),
        Cell::number((asked.waited_ns > 0).then_some(asked.waited_ns)),
        Cell::text(part.map(|part| part.source.name())),
        part.map_or(Cell::None, |part| Cell::Flag(part.in_fault)),
        Cell::number(part.and_then(|part| part.call)),
        Cell::Flag(request.kind.read_ahead),
        Cell::Flag(request.kind.sync),
        Cell::Flag(request.kind.metadata),
        Cell::Flag(request.kind.fua),
        Cell::Flag(request.scheduled),
        Cell::number((request.depth > 0).then_some(request.depth)),
        Cell::number(Some(request.requeues)),
        Cell::Text(
            if request.error == 0 {
                String::new()
            } else {
                request.error.to_string()
            }
            .into(),
        ),
        Cell::Number(parts.len() as u64),
        Cell::Text(seen.into()),
        Cell::Flag(request.bio_only),
        device.map_or(Cell::None, |device| Cell::Flag(device.is_stacked())),
        file.map_or(Cell::None, |file| {
            Cell::Text(format!("{}:{}", file.id.major, file.id.minor).into())
        }),
        Cell::number(file.map(|file| file.id.inode)),
        part.and_then(|part| view.is_complete(part))
            .map_or(Cell::None, Cell::Flag),
    ]
}
