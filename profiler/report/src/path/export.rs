//! Export with one row per piece of a path, as CSV and newline-delimited JSON with the same columns.

use super::lanes::EndedBy;
use super::view::PathView;
use super::walk::Piece;
use crate::export::{Cell, columns, ns};
use crate::functions::outermost_first;
use crate::lookup::Lookup as _;
use fact::{MappedFile, WaitReason};

/// A piece and what it refers to.
struct PathRow<'r> {
    view: &'r PathView<'r>,
    piece: &'r Piece,
    paths: &'r [String],
}

columns! {
    fn cells<'r>(row: &PathRow<'r>);
    "time_ns": Number = row.view.tables.time_ns(row.piece.start);
    "end_ns": Number = row.view.tables.time_ns(row.piece.end);
    "duration_ns": Number = ns(row.piece.end.since(row.piece.start));
    "pid": Number = row.view.tables.process(row.piece.spent.thread).map(|process| process.pid);
    "tid": Number = row.view.tables.thread(row.piece.spent.thread).map(|thread| thread.tid);
    "process": Text = row.view.tables.process(row.piece.spent.thread).map(|process| process.name.as_str());
    "thread": Text = row.view.tables.thread(row.piece.spent.thread).map(|thread| thread.name.as_str());
    "reason": Text = row.piece.spent.kind.name();
    "via": Text = row.piece.via.map(WaitReason::name);
    "held_up_tid": Number = row.view.tables.thread(row.piece.lane).map(|thread| thread.tid);
    "held_up": Text = row.view.tables.thread(row.piece.lane).map(|thread| thread.name.as_str());
    "function": Text = row.function();
    "stack": Text = row.piece.spent.stack.map(|stack| outermost_first(row.view.tables, stack));
    "file": Text = row.piece.spent.file.and_then(|file| row.paths.get(file.index())).map(String::as_str);
    "device": Text = row.device();
    "waker_tid": Number = row.waker();
}

impl<'r> PathRow<'r> {
    fn function(&self) -> Option<&'r str> {
        let function = self.view.functions.get(self.view.function(self.piece)?)?;
        Some(&function.name)
    }

    fn device(&self) -> Option<&'r str> {
        let device = self.view.tables.devices.get(self.piece.spent.device?.index())?;
        Some(&device.name)
    }

    /// The thread that ended a wait that is not replaced.
    fn waker(&self) -> Option<u32> {
        match self.piece.spent.ended_by {
            EndedBy::Thread(id) => Some(self.view.tables.thread(id)?.tid),
            EndedBy::Unrecorded(tid) => Some(tid),
            EndedBy::Unknown | EndedBy::Interrupt => None,
        }
    }
}

/// Turns pieces into rows.
#[derive(Debug)]
pub struct Exporter<'v> {
    view: &'v PathView<'v>,
    paths: Vec<String>,
}

impl<'v> Exporter<'v> {
    /// Exports the pieces of a view.
    pub fn new(view: &'v PathView<'v>) -> Self {
        let paths = view.tables.files.iter().map(MappedFile::display_path);
        Self {
            view,
            paths: paths.collect(),
        }
    }

    /// The cells of a piece, in the order of [`COLUMNS`].
    pub fn row<'r>(&'r self, piece: &'r Piece) -> [Cell<'r>; COLUMNS.len()] {
        let (view, paths) = (self.view, &self.paths);
        cells(&PathRow { view, piece, paths })
    }
}
