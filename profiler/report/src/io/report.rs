//! The tables of `ngmi io`: the selected requests by device, and their I/Os by file, function and process. Each of the
//! last three adds up to the totals.

use std::collections::BTreeMap;

use serde::Serialize;

use super::devices::{self, DeviceRow};
use super::files::{self, Tiny, TinyRow, WasteRow};
use super::rows::{Asked, Part};
use super::select::Selector;
use super::tally::{Groups, Tally};
use super::view::{Place, View, no_file};
use crate::export::ns;
use fact::request::{BioSource, Operation, RequestCoverage};
use fact::{MappedFileId, ProcessId, Recording, RequestFact};

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
    pub totals: Tally,
    /// Known time that threads waited for these requests, in ns.
    pub waited_ns: u64,
    /// Rows by device, including stacked ones; devices without requests are left out.
    pub by_device: Vec<DeviceRow>,
    /// Rows by file.
    pub by_file: Vec<FileRow>,
    /// Rows by submitting function.
    pub by_function: Vec<FunctionRow>,
    /// Rows by submitting process.
    pub by_process: Vec<ProcessRow>,
    /// Pages read for faults and never touched, in the whole recording.
    pub waste: Vec<WasteRow>,
    /// Places with many small reads.
    pub tiny_reads: Vec<TinyRow>,
    /// Failed requests by device, operation and error.
    pub errors: Vec<ErrorRow>,
}

/// I/Os of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// Path as the process sees it; in parentheses, a source that is not a file.
    pub file: String,
    /// `major:minor` of the file's device.
    pub device: Option<String>,
    /// Inode number of the file.
    pub inode: Option<u64>,
    /// Number of I/Os, bytes and time.
    #[serde(flatten)]
    pub tally: Tally,
}

/// I/Os of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionRow {
    /// Function name; in brackets, a kernel thread or another program; `None`: no function of the program, or unknown.
    pub function: Option<String>,
    /// The function's module.
    pub module: Option<String>,
    /// The submitter is known.
    pub seen: bool,
    /// Number of I/Os, bytes and time.
    #[serde(flatten)]
    pub tally: Tally,
}

/// I/Os of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Process ID, if the process is recorded.
    pub pid: Option<u32>,
    /// Process name; in brackets, a kernel thread or another program; `None`: unknown.
    pub process: Option<String>,
    /// Number of I/Os, bytes and time.
    #[serde(flatten)]
    pub tally: Tally,
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

/// Accumulates the sums of all tables.
#[derive(Default)]
struct Sums {
    requests: u64,
    waited_ns: u64,
    totals: Tally,
    files: Groups<FileKey>,
    functions: Groups<Place>,
    processes: Groups<ProcessKey>,
    tiny: Tiny,
    errors: BTreeMap<(u32, Operation, i32), u64>,
}

impl Sums {
    /// Counts a request with its selected parts; `all`: parts are not filtered.
    fn add(&mut self, view: &View<'_>, asked: &Asked, all: bool) {
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
            let process = view.thread(part).map(|thread| ProcessKey::Process(thread.process));
            let place = view.place(part);
            let process = process.unwrap_or(match place {
                Place::Other(name) => ProcessKey::Other(name),
                _ => ProcessKey::Unseen,
            });
            let file = part.file.map_or(FileKey::None(part.source), FileKey::File);
            let time = ns(request.end.since(part.time));
            self.count((file, place, process), request, u64::from(part.bytes), time);
        }
        // The submitter of the rest is unknown.
        if all && (left > 0 || parts.is_empty()) {
            let time = if parts.is_empty() {
                ns(request.end.since(request.start))
            } else {
                0
            };
            self.count(
                (FileKey::Unseen, Place::Unknown, ProcessKey::Unseen),
                request,
                left,
                time,
            );
        }
        if let Some(first) = main_part(parts) {
            self.tiny.add(view, request, first);
        }
    }

    fn count(
        &mut self,
        (file, place, process): (FileKey, Place, ProcessKey),
        request: &RequestFact,
        bytes: u64,
        time: u64,
    ) {
        self.totals.add(request, bytes, time);
        for group in [
            self.files.of(file),
            self.functions.of(place),
            self.processes.of(process),
        ] {
            group.add(request, bytes, time);
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
        let mut sums = Sums::default();
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
                sums.add(view, &asked, all);
            }
        }
        by_device.retain(|row| row.requests > 0 || row.unfinished > 0);
        by_device.sort_by_key(|row| {
            (
                row.stacked,
                std::cmp::Reverse(row.done.read_bytes.saturating_add(row.done.written_bytes)),
            )
        });
        let files = sums.files.sorted();
        let paths: Vec<(MappedFileId, String)> = (files.iter())
            .filter_map(|(key, _)| match key {
                FileKey::File(file) => Some((*file, view.path_of(*file)?)),
                _ => None,
            })
            .collect();
        Self {
            recording: view.tables.recording.clone(),
            requests_in_file: view.facts.len() as u64,
            is_everything: selector.is_everything(),
            requests: sums.requests,
            totals: sums.totals,
            waited_ns: sums.waited_ns,
            by_device,
            by_file: files.into_iter().map(|group| file_row(view, group)).collect(),
            by_function: sums
                .functions
                .sorted()
                .into_iter()
                .map(|group| function_row(view, group))
                .collect(),
            by_process: sums
                .processes
                .sorted()
                .into_iter()
                .map(|group| process_row(view, group))
                .collect(),
            waste: files::waste(view, paths.iter().map(|(id, path)| (*id, path.as_str()))),
            tiny_reads: sums.tiny.finish(view),
            errors: sums.errors.into_iter().map(|error| error_row(view, error)).collect(),
        }
    }
}

fn file_row(view: &View<'_>, (key, tally): (FileKey, Tally)) -> FileRow {
    let file = match key {
        FileKey::File(id) => view.tables.files.get(id.index()),
        _ => None,
    };
    FileRow {
        file: match key {
            FileKey::File(id) => view.path_of(id).unwrap_or_default(),
            FileKey::None(source) => no_file(source).to_owned(),
            FileKey::Unseen => "(unknown submitter)".to_owned(),
        },
        device: file.map(|file| format!("{}:{}", file.id.major, file.id.minor)),
        inode: file.map(|file| file.id.inode),
        tally,
    }
}

fn function_row(view: &View<'_>, (place, tally): (Place, Tally)) -> FunctionRow {
    let function = match place {
        Place::Function(id) => view.functions.get(id),
        _ => None,
    };
    FunctionRow {
        function: view.place_name(place),
        module: function.and_then(|function| Some(view.tables.module_name(function.module?).to_owned())),
        seen: place != Place::Unknown,
        tally,
    }
}

fn process_row(view: &View<'_>, (key, tally): (ProcessKey, Tally)) -> ProcessRow {
    let process = match key {
        ProcessKey::Process(id) => view.tables.processes.get(id.index()),
        _ => None,
    };
    let other = match key {
        ProcessKey::Other(name) => view.place_name(Place::Other(name)),
        _ => None,
    };
    ProcessRow {
        pid: process.map(|process| process.pid),
        process: process.map(|process| process.name.clone()).or(other),
        tally,
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
