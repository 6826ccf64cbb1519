//! The columns of a path: its pieces, their parts and their stacks.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::merge::{Run, runs};
use crate::explorer::container::NONE;
use crate::explorer::limits;
use crate::explorer::stacks::{StackTree, Stacks};
use crate::explorer::strings::Strings;
use crate::functions::FunctionId;
use crate::lookup::Lookup as _;
use crate::path::lanes::EndedBy;
use crate::path::view::{Part, PathView, Place};
use crate::path::walk::Kind;
use base::intern::Interner;
use fact::{DeviceId, MappedFileId, ThreadId};

/// Columns by name; the rows of a group have the same index.
#[derive(Debug, Default, Serialize)]
pub struct Columns {
    piece_duration: Vec<u64>,
    piece_count: Vec<u64>,
    piece_lane: Vec<u32>,
    piece_thread: Vec<u32>,
    piece_reason: Vec<u8>,
    piece_via: Vec<Option<u8>>,
    piece_function: Vec<Option<u32>>,
    piece_file: Vec<Option<u32>>,
    piece_device: Vec<Option<u32>>,
    piece_part: Vec<u32>,
    piece_stack: Vec<Option<u32>>,
    piece_waker: Vec<Option<u32>>,
    part_thread: Vec<u32>,
    part_reason: Vec<u8>,
    part_function: Vec<Option<u32>>,
    part_file: Vec<Option<u32>>,
    part_device: Vec<Option<u32>>,
    #[serde(flatten)]
    stacks: StackTree,
}

/// Builds the columns.
struct Builder<'v> {
    view: &'v PathView<'v>,
    strings: &'v mut Strings,
    columns: Columns,
    reasons: FxHashMap<Kind, u8>,
    threads: Interner<ThreadId>,
    parts: Interner<Part>,
}

/// The columns of a path, and the threads that they refer to.
pub fn of(view: &PathView<'_>, strings: &mut Strings) -> (Columns, Vec<ThreadId>) {
    let mut stacks = Stacks::new(view.tables, view.functions(), limits::PATH_NODES);
    let mut builder = Builder {
        view,
        strings,
        columns: Columns::default(),
        reasons: Kind::all().zip(0..).collect(),
        threads: Interner::default(),
        parts: Interner::default(),
    };
    // The path's own thread is the first.
    number(&mut builder.threads, view.chosen.thread);
    for run in runs(&view.pieces, limits::PIECES) {
        builder.piece(&run, &mut stacks);
    }
    for part in std::mem::take(&mut builder.parts).into_values() {
        builder.part(part);
    }
    builder.columns.stacks = stacks.tree();
    (builder.columns, builder.threads.into_values())
}

impl Builder<'_> {
    fn piece(&mut self, run: &Run<'_>, stacks: &mut Stacks<'_>) {
        let (view, piece) = (self.view, run.longest);
        let spent = &piece.spent;
        let waker = match spent.ended_by {
            EndedBy::Thread(id) => view.tables.thread(id).map(|thread| thread.tid),
            EndedBy::Unrecorded(tid) => Some(tid),
            EndedBy::Unknown | EndedBy::Interrupt => None,
        };
        let stack = spent.stack.map(|stack| stacks.node(stack, self.strings));
        let part = number(&mut self.parts, view.part(piece));
        let threads = &mut self.threads;
        let (lane, thread) = (number(threads, piece.lane), number(threads, spent.thread));
        let via = piece.via.map(|via| self.reason(Kind::Wait(via)));
        let (reason, function) = (self.reason(spent.kind), view.function(piece));
        let (function, file, device) = (
            self.function(function),
            self.file(spent.file),
            self.device(spent.device),
        );
        let columns = &mut self.columns;
        columns.piece_duration.push(run.time_ns);
        columns.piece_count.push(run.count);
        columns.piece_lane.push(lane);
        columns.piece_thread.push(thread);
        columns.piece_reason.push(reason);
        columns.piece_via.push(via);
        columns.piece_function.push(function);
        columns.piece_file.push(file);
        columns.piece_device.push(device);
        columns.piece_part.push(part);
        columns.piece_stack.push(stack.filter(|node| *node != NONE));
        columns.piece_waker.push(waker);
    }

    fn part(&mut self, part: Part) {
        let (thread, reason) = (number(&mut self.threads, part.thread), self.reason(part.kind));
        let (function, file, device) = match part.place {
            Place::Function(id) => (self.function(Some(id)), None, None),
            Place::File(id) => (None, self.file(Some(id)), None),
            Place::Device(id) => (None, None, self.device(Some(id))),
            Place::None => (None, None, None),
        };
        let columns = &mut self.columns;
        columns.part_thread.push(thread);
        columns.part_reason.push(reason);
        columns.part_function.push(function);
        columns.part_file.push(file);
        columns.part_device.push(device);
    }

    fn reason(&self, kind: Kind) -> u8 {
        self.reasons.get(&kind).copied().unwrap_or(u8::MAX)
    }

    fn function(&mut self, id: Option<FunctionId>) -> Option<u32> {
        let function = self.view.functions().get(id?)?;
        Some(self.strings.id(&function.name))
    }

    fn file(&mut self, id: Option<MappedFileId>) -> Option<u32> {
        let file = self.view.tables.files.get(id?.index())?;
        Some(self.strings.id(&file.display_path()))
    }

    fn device(&mut self, id: Option<DeviceId>) -> Option<u32> {
        let device = self.view.tables.devices.get(id?.index())?;
        Some(self.strings.id(&device.name))
    }
}

fn number<T: Copy + Eq + Hash>(items: &mut Interner<T>, item: T) -> u32 {
    items.number(&item, usize::MAX, Clone::clone).unwrap_or(NONE)
}
