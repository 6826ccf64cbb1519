//! The tables of `ngmi path`: the pieces by part, reason, thread, function, file and device, and the longest links of
//! the chain. Each table adds up to the time span.

use std::hash::Hash;

use serde::Serialize;

use super::chain::{LINKS, Link, longest};
use super::select::Chosen;
use super::tally::PathTally;
use super::view::{Part, PathView, Place};
use super::walk::Piece;
use crate::grid::{GroupName, GroupRow, GroupTables, Grouping, Groupings, by_parts};
use crate::lookup::{Lookup as _, thread_name};
use crate::text::fit;
use fact::{DeviceId, MappedFile, MappedFileId, Recording, ThreadId, WaitReason};

/// Most rows of each table whose savings are computed.
const SAVED_ROWS: usize = 16;
/// Steps that this may take for a table, which limits the rows: each takes a pass over the path and its dependencies.
const SAVED_STEPS: usize = 10_000_000;

/// Summary of a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathReport {
    /// Metadata of the recording.
    pub recording: Recording,
    /// The thread that the path is of.
    pub thread: PathThread,
    /// Its start, in ns since the start of the recording.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// All pieces.
    pub totals: PathTally,
    /// The tables: `by_part`, `by_reason`, and so on.
    #[serde(flatten)]
    pub tables: GroupTables<PathTally>,
    /// The longest links of the chain, by time.
    pub chain: Vec<Link>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathThread {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of the thread.
    pub thread: String,
    /// How many threads match the selection, of which this one lived longest.
    pub matching: usize,
}

impl PathReport {
    /// Summarizes a path.
    pub fn new(view: &PathView<'_>) -> Self {
        let mut groupings = groupings(view);
        for piece in &view.pieces {
            groupings.add(piece, &PathTally::of(piece));
        }
        let (totals, tables) = groupings.finish();
        let Chosen {
            thread,
            window,
            matching,
        } = view.chosen;
        let since_start = |time| view.tables.time_ns(time);
        let of_thread = view.tables.thread(thread);
        Self {
            recording: view.tables.recording.without_usage(),
            thread: PathThread {
                pid: view.tables.process(thread).map_or(0, |process| process.pid),
                tid: of_thread.map_or(0, |thread| thread.tid),
                thread: of_thread.map_or_else(String::new, |thread| thread.name.clone()),
                matching,
            },
            start_ns: since_start(window.start),
            end_ns: since_start(window.end),
            totals,
            tables,
            chain: longest(view, LINKS).iter().map(|link| link.shown(view)).collect(),
        }
    }
}

fn groupings<'v>(view: &'v PathView<'_>) -> Groupings<'v, Piece, PathTally> {
    let tables = view.tables;
    Groupings::new(vec![
        table(
            view,
            ("by_part", "by thread, reason and place"),
            |piece| view.part(piece),
            |part| part_row(view, part),
        ),
        table(
            view,
            ("by_reason", "by reason"),
            |piece| piece.spent.kind,
            |kind| GroupName::new(kind.name()).field("reason", kind.name()),
        ),
        table(
            view,
            ("by_thread", "by thread"),
            |piece| piece.spent.thread,
            |id| thread_name(tables, id, None),
        ),
        // How the path came to a thread says nothing about other threads.
        table_saving(
            view,
            |view, is_removed| view.saved_on_path(is_removed),
            ("by_via", "by the wait that led to it"),
            |piece| piece.via,
            via_row,
        ),
        table(
            view,
            ("by_function", "by function"),
            |piece| view.function(piece),
            |id| view.functions.group_name(tables, id),
        ),
        table(
            view,
            ("by_file", "by file"),
            |piece| piece.spent.file,
            |id: Option<MappedFileId>| match id.and_then(|id| tables.files.get(id.index())) {
                Some(file) => GroupName::path(file.display_path()).field("file", file.display_path()),
                None => GroupName::new("(no known file)").field("file", None::<String>),
            },
        ),
        table(
            view,
            ("by_device", "by device"),
            |piece| piece.spent.device,
            |id: Option<DeviceId>| {
                let name = id
                    .and_then(|id| tables.devices.get(id.index()))
                    .map(|device| device.name.clone());
                GroupName::new(name.as_deref().unwrap_or("(no device)")).field("device", name)
            },
        ),
    ])
}

/// A table whose first rows show what they would save, on the path and off it.
fn table<'v, K: Hash + Ord + Copy + 'v>(
    view: &'v PathView<'_>,
    titles: (&'static str, &'static str),
    of: impl Fn(&Piece) -> K + Copy + 'v,
    name: impl Fn(K) -> GroupName + 'v,
) -> Box<dyn Grouping<Piece, PathTally> + 'v> {
    table_saving(view, |view, is_removed| view.saved(is_removed), titles, of, name)
}

/// The time that is saved without pieces.
type Saved = fn(&PathView<'_>, &dyn Fn(&Piece) -> bool) -> Option<u64>;

fn table_saving<'v, K: Hash + Ord + Copy + 'v>(
    view: &'v PathView<'_>,
    saved: Saved,
    titles: (&'static str, &'static str),
    of: impl Fn(&Piece) -> K + Copy + 'v,
    name: impl Fn(K) -> GroupName + 'v,
) -> Box<dyn Grouping<Piece, PathTally> + 'v> {
    let saved_rows = (SAVED_STEPS / view.saved_steps()).clamp(1, SAVED_ROWS);
    by_parts(titles, of, move |groups: Vec<(K, PathTally)>| {
        let rows = groups.into_iter().enumerate().map(|(place, (key, mut tally))| {
            if place < saved_rows {
                tally.saves_ns = saved(view, &|piece| of(piece) == key);
            }
            GroupRow::new(name(key), tally)
        });
        rows.collect()
    })
}

fn via_row(via: Option<WaitReason>) -> GroupName {
    let name = via.map(WaitReason::name);
    GroupName::new(name.unwrap_or("(the thread itself)")).field("via", name)
}

fn part_row(view: &PathView<'_>, part: Part) -> GroupName {
    let tables = view.tables;
    let thread = tables.thread(part.thread);
    let (function, file, device) = names(view, part.place);
    GroupName::new(part_text(view, part))
        .field("pid", tables.process(part.thread).map_or(0, |process| process.pid))
        .field("tid", thread.map_or(0, |thread| thread.tid))
        .field("thread", thread.map(|thread| thread.name.clone()))
        .field("reason", part.kind.name())
        .field("function", function)
        .field("file", file)
        .field("device", device)
}

/// Names of the function, the file and the device that a place is.
fn names(view: &PathView<'_>, place: Place) -> (Option<String>, Option<String>, Option<String>) {
    let tables = view.tables;
    let file = |id: MappedFileId| tables.files.get(id.index()).map(MappedFile::display_path);
    match place {
        Place::Function(id) => (view.functions.get(id).map(|function| function.name.clone()), None, None),
        Place::File(id) => (None, file(id), None),
        Place::Device(id) => (
            None,
            None,
            tables.devices.get(id.index()).map(|device| device.name.clone()),
        ),
        Place::None => (None, None, None),
    }
}

/// `worker cpu in compress`, `GeckoMain fault of libxul.so`, `hog run-queue`; `bash 4711 run-queue` if several threads
/// on the path are called bash.
pub fn part_text(view: &PathView<'_>, part: Part) -> String {
    let place = match names(view, part.place) {
        (Some(function), ..) => format!(" in {function}"),
        (_, Some(file), _) => format!(" of {}", fact::short_path(&file)),
        (.., Some(device)) => format!(" of {device}"),
        _ => String::new(),
    };
    format!("{} {}{place}", short_thread(view, part.thread), part.kind.name())
}

fn short_thread(view: &PathView<'_>, id: ThreadId) -> String {
    let thread = view.tables.thread(id);
    let name = thread.map_or("(unknown)", |thread| thread.name.as_str());
    match thread.filter(|_| view.has_namesake(id)) {
        Some(thread) => format!("{} {}", fit(name, 16), thread.tid),
        None => fit(name, 20),
    }
}
