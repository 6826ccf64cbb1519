//! The tables of `ngmi io`: the selected requests by device, and their I/Os by file, function and process. Each of the
//! last three adds up to the totals.

use std::collections::BTreeMap;

use serde::Serialize;

use super::devices::{self, DeviceRow};
use super::files::{self, Tiny, TinyRow, WasteRow};
use super::rows::{Asked, Part};
use super::select::Selector;
use super::tally::IoTally;
use super::view::{Place, View, no_file};
use crate::export::ns;
use crate::grid::{GroupName, GroupTables, Groupings, by};
use crate::lookup::Lookup as _;
use crate::owner::{by_cgroup, cgroup_name};
use fact::request::{BioSource, Operation, RequestCoverage};
use fact::{MappedFileId, ProcessId, Recording};

/// Summary of the selected block requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IoReport {
    /// Metadata of the recording.
    pub recording: Recording,
    /// Requests in the input, selected or not.
    pub requests_in_file: u64,
    /// Nothing is filtered out.
    pub is_everything: bool,
    /// Selected requests of the devices that are in totals.
    pub requests: u64,
    /// I/Os of these requests.
    pub totals: IoTally,
    /// Known time that threads waited for these requests, in ns.
    pub waited_ns: u64,
    /// Rows by device, including stacked ones; devices without requests are left out.
    pub by_device: Vec<DeviceRow>,
    /// The tables `by_file`, `by_function`, `by_process` and `by_cgroup`.
    #[serde(flatten)]
    pub tables: GroupTables<IoTally>,
    /// Pages read for faults and never touched, in the whole recording.
    pub waste: Vec<WasteRow>,
    /// Places with many small reads.
    pub tiny_reads: Vec<TinyRow>,
    /// Failed requests by device, operation and error.
    pub errors: Vec<ErrorRow>,
}

/// Requests that failed the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorRow {
    /// Device name.
    pub device: String,
    /// Operation of the requests.
    pub operation: Operation,
    /// The kernel's error number.
    pub error: i32,
    /// Description of the error; empty if unknown.
    pub meaning: &'static str,
    /// Number of failed requests.
    pub requests: u64,
}

/// What an I/O is grouped by.
struct IoKeys {
    file: FileKey,
    place: Place,
    process: ProcessKey,
}

/// Grouping key of the table by file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum FileKey {
    File(MappedFileId),
    None(BioSource),
    Unseen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ProcessKey {
    Process(ProcessId),
    Other(u32),
    Unseen,
}

fn groupings<'v>(view: &'v View<'_>) -> Groupings<'v, IoKeys, IoTally> {
    Groupings::new(vec![
        by(("by_file", "by file"), |keys: &IoKeys| keys.file, |key| file(view, key)),
        by(
            ("by_function", "by function"),
            |keys: &IoKeys| keys.place,
            |place| function(view, place),
        ),
        by(
            ("by_process", "by process"),
            |keys: &IoKeys| keys.process,
            |key| process(view, key),
        ),
        by(
            by_cgroup(&view.owners),
            |keys: &IoKeys| match keys.process {
                ProcessKey::Process(id) => view.owners.place(id),
                ProcessKey::Other(_) | ProcessKey::Unseen => None,
            },
            |place| cgroup_name(&view.owners, place),
        ),
    ])
}

fn file(view: &View<'_>, key: FileKey) -> GroupName {
    let (path, id) = match key {
        FileKey::File(id) => (view.path_of(id).unwrap_or_default(), Some(id)),
        FileKey::None(source) => (no_file(source).to_owned(), None),
        FileKey::Unseen => ("(unknown submitter)".to_owned(), None),
    };
    let file = id.and_then(|id| view.tables.files.get(id.index()));
    GroupName::path(path.clone())
        .field("file", path)
        .field(
            "device",
            file.map(|file| format!("{}:{}", file.id.major, file.id.minor)),
        )
        .field("inode", file.map(|file| file.id.inode))
        .of_file(id)
}

fn function(view: &View<'_>, place: Place) -> GroupName {
    let name = match (place, view.place_name(place)) {
        (Place::Function(id), _) => view.functions.group_name(view.tables, Some(id)),
        (Place::Unknown, _) => GroupName::new("(unknown submitter)")
            .field("function", None::<u64>)
            .field("module", None::<u64>),
        (_, Some(other)) => GroupName::new(other.clone())
            .field("function", other)
            .field("module", None::<u64>),
        (_, None) => view.functions.group_name(view.tables, None),
    };
    name.field("seen", place != Place::Unknown)
}

fn process(view: &View<'_>, key: ProcessKey) -> GroupName {
    let (pid, name) = match key {
        ProcessKey::Process(id) => {
            let process = view.tables.processes.get(id.index());
            (
                process.map(|process| process.pid),
                process.map(|process| process.name.clone()),
            )
        }
        ProcessKey::Other(name) => (None, view.place_name(Place::Other(name))),
        ProcessKey::Unseen => (None, None),
    };
    let shown = GroupName::new(name.as_deref().unwrap_or("(unknown submitter)"));
    let shown = match pid {
        Some(pid) => shown.with_id(pid),
        None => shown,
    };
    shown.field("pid", pid).field("process", name)
}

/// Accumulates the selected requests.
struct IoSums<'v> {
    view: &'v View<'v>,
    requests: u64,
    waited_ns: u64,
    groupings: Groupings<'v, IoKeys, IoTally>,
    tiny: Tiny,
    errors: BTreeMap<(u32, Operation, i32), u64>,
}

impl<'v> IoSums<'v> {
    fn new(view: &'v View<'v>) -> Self {
        Self {
            view,
            requests: 0,
            waited_ns: 0,
            groupings: groupings(view),
            tiny: Tiny::default(),
            errors: BTreeMap::new(),
        }
    }

    /// Counts a request with its selected parts; `all`: parts are not filtered.
    fn add(&mut self, asked: &Asked, all: bool) {
        let view = self.view;
        let (request, parts) = (&asked.request, &asked.parts);
        self.requests += 1;
        self.waited_ns = self.waited_ns.saturating_add(asked.waited_ns);
        if request.error != 0 {
            let key = (request.device.0, request.operation, request.error);
            *self.errors.entry(key).or_default() += 1;
        }
        let mut left = u64::from(request.bytes);
        for part in parts {
            left = left.saturating_sub(u64::from(part.bytes));
            let process = part.thread.and_then(|id| view.tables.thread(id));
            let process = process.map(|thread| ProcessKey::Process(thread.process));
            let place = view.place(part);
            let process = process.unwrap_or(match place {
                Place::Other(name) => ProcessKey::Other(name),
                _ => ProcessKey::Unseen,
            });
            let file = part.file.map_or(FileKey::None(part.source), FileKey::File);
            let time = ns(request.end.since(part.time));
            let keys = IoKeys { file, place, process };
            self.groupings
                .add(&keys, &IoTally::of(request, u64::from(part.bytes), time));
        }
        // The submitter of the rest is unknown.
        if all && (left > 0 || parts.is_empty()) {
            let time = if parts.is_empty() {
                ns(request.end.since(request.start))
            } else {
                0
            };
            let keys = IoKeys {
                file: FileKey::Unseen,
                place: Place::Unknown,
                process: ProcessKey::Unseen,
            };
            self.groupings.add(&keys, &IoTally::of(request, left, time));
        }
        if let Some(first) = main_part(parts) {
            self.tiny.add(view, request, first);
        }
    }
}

/// The part that represents a request where only one can be shown: the largest, or the first of several equally large ones.
pub fn main_part(parts: &[Part]) -> Option<&Part> {
    parts
        .iter()
        .max_by_key(|part| (part.bytes, std::cmp::Reverse(part.time)))
}

impl IoReport {
    /// Summarizes the selected requests.
    pub fn new(view: &View<'_>, selector: &Selector) -> Self {
        let mut sums = IoSums::new(view);
        let mut by_device = devices::rows(view.tables);
        let all = !selector.chooses_parts();
        for mut asked in view.requests() {
            let bios = asked.parts.len();
            if !selector.narrows(view, &mut asked) {
                continue;
            }
            if let Some(row) = by_device.get_mut(asked.request.device.index()) {
                row.add(&asked.request, bios);
            }
            if selector.counts(&asked.request) && asked.request.coverage != RequestCoverage::EndMissed {
                sums.add(&asked, all);
            }
        }
        by_device.retain(|row| row.requests > 0 || row.unfinished > 0);
        by_device.sort_by_key(|row| {
            (
                row.stacked,
                std::cmp::Reverse(row.done.read_bytes.saturating_add(row.done.written_bytes)),
            )
        });
        let (totals, groups) = sums.groupings.finish();
        let files = groups.rows("by_file").iter();
        Self {
            recording: view.tables.recording.without_usage(),
            requests_in_file: view.facts.len() as u64,
            is_everything: selector.is_everything(),
            requests: sums.requests,
            totals,
            waited_ns: sums.waited_ns,
            by_device,
            waste: files::waste(view, files.filter_map(|row| Some((row.file()?, row.text("file")?)))),
            tables: groups,
            tiny_reads: sums.tiny.finish(view),
            errors: sums.errors.into_iter().map(|error| error_row(view, error)).collect(),
        }
    }
}

fn error_row(view: &View<'_>, ((device, operation, error), requests): ((u32, Operation, i32), u64)) -> ErrorRow {
    let device = view.tables.devices.get(device as usize);
    ErrorRow {
        device: device.map_or_else(String::new, |device| device.name.clone()),
        operation,
        error,
        meaning: meaning(error),
        requests,
    }
}

/// Describes a `blk_status_t` of `include/linux/blk_types.h` (since 5.16) or the negative error number of older records.
fn meaning(error: i32) -> &'static str {
    match error {
        1 | -95 => "not supported",
        2 | -110 => "timed out",
        3 | -28 => "no space left",
        4 | -67 => "connection to the device failed",
        5 | -121 => "rejected by the device",
        6 | -52 => "reserved by another host",
        7 | -61 => "medium damaged",
        8 | -84 => "data does not match what was written",
        9 | -12 => "out of memory",
        10 | -5 => "I/O error",
        12 | -11 => "would have blocked",
        17 | -19 => "device removed",
        _ => "",
    }
}
