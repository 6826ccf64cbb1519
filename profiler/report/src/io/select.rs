//! Selection of requests. A request must match any value of each condition that is set, and all conditions.

use std::time::Duration;

use super::rows::{Asked, Part};
use super::view::{Place, View};
use crate::select::{Names, SelectError, Span, Wanted, Words, fits, glob, id_or_name, takes};
use fact::request::{BlockDevice, DeviceId, Operation};
use fact::{MappedFileId, RequestFact, StackId, Thread};

const WORDS: Words = Words {
    verb: "io",
    of: "requests",
};

/// The user's filter options; an empty list selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Names or patterns of devices.
    pub devices: Vec<String>,
    /// Paths, base names or patterns of files.
    pub files: Vec<String>,
    /// IDs, names or patterns of processes.
    pub processes: Vec<String>,
    /// IDs, names or patterns of threads.
    pub threads: Vec<String>,
    /// Names or patterns of submitting functions.
    pub functions: Vec<String>,
    /// Names or patterns of functions anywhere in the stack.
    pub under: Vec<String>,
    /// Operations of the requests.
    pub operations: Vec<Operation>,
    /// Earliest start, since the start of the recording (inclusive).
    pub from: Option<Duration>,
    /// Latest start, since the start of the recording (exclusive).
    pub to: Option<Duration>,
}

/// A selection resolved against the tables of a recording.
#[derive(Debug, Default)]
pub struct Selector {
    devices: Option<Vec<bool>>,
    files: Option<Vec<bool>>,
    threads: Option<Vec<bool>>,
    /// By name index of unrecorded submitters.
    others: Option<Vec<bool>>,
    functions: Option<Vec<bool>>,
    stacks: Option<Vec<bool>>,
    operations: Vec<Operation>,
    span: Span,
    /// By device: its requests are in totals.
    counts: Vec<bool>,
}

impl Selector {
    /// Looks up the names of a selection.
    ///
    /// # Errors
    /// When nothing in the recording matches a name, which is probably a typo.
    pub fn new(view: &View<'_>, selection: &Selection) -> Result<Self, SelectError> {
        let tables = view.tables;
        let by_name = |device: &BlockDevice, pattern: &str| glob(pattern, &device.name);
        let devices = fits(
            WORDS,
            &selection.devices,
            &tables.devices,
            ("device", "device"),
            by_name,
        )?;
        let names = Names {
            words: WORDS,
            tables,
            functions: &view.functions,
        };
        let (threads, others) = submitters(view, selection)?;
        Ok(Self {
            counts: counts(view, devices.as_deref()),
            devices,
            files: names.files(&selection.files)?,
            threads,
            others,
            functions: names.functions(&selection.functions)?,
            stacks: names.under(&selection.under)?,
            operations: selection.operations.clone(),
            span: Span::new(selection.from, selection.to),
        })
    }

    /// Removes the parts that are not selected. Returns false if the request is not selected either.
    pub fn narrows(&self, view: &View<'_>, asked: &mut Asked) -> bool {
        asked.parts.retain(|part| self.takes_part(view, part));
        self.takes(view, &asked.request) && (!self.chooses_parts() || !asked.parts.is_empty())
    }

    /// Whether the request itself is selected, regardless of its submitters.
    fn takes(&self, view: &View<'_>, request: &RequestFact) -> bool {
        let time = request.start.since(view.tables.recording.start);
        self.span.has(time)
            && (self.operations.is_empty() || self.operations.contains(&request.operation))
            && takes(self.devices.as_deref(), Some(request.device.index()))
    }

    /// Whether a part of a request is selected.
    fn takes_part(&self, view: &View<'_>, part: &Part) -> bool {
        let is_wanted = match part.thread {
            Some(thread) => takes(self.threads.as_deref(), Some(thread.index())),
            None => takes(self.others.as_deref(), Some(part.name as usize)),
        };
        let function = || match view.place(part) {
            Place::Function(id) => Some(id.0 as usize),
            _ => None,
        };
        is_wanted
            && takes(self.files.as_deref(), part.file.map(MappedFileId::index))
            && takes(self.stacks.as_deref(), part.stack.map(StackId::index))
            && (self.functions.is_none() || takes(self.functions.as_deref(), function()))
    }

    /// Whether the selection filters parts, by submitter or file.
    pub fn chooses_parts(&self) -> bool {
        let lists = [&self.files, &self.threads, &self.others, &self.functions, &self.stacks];
        lists.into_iter().any(Option::is_some)
    }

    /// Whether nothing is filtered out.
    pub fn is_everything(&self) -> bool {
        let all = self.devices.is_none() && self.operations.is_empty() && !self.chooses_parts();
        all && self.span == Span::default()
    }

    /// Whether the request is in totals over devices. A stacked device is not, since the devices below it get the same requests
    /// again; a device that is selected by name always is.
    pub fn counts(&self, request: &RequestFact) -> bool {
        self.counts.get(request.device.index()) == Some(&true)
    }
}

/// Resolves the selected threads, and the selected names of unrecorded submitters.
fn submitters(view: &View<'_>, selection: &Selection) -> Result<(Wanted, Wanted), SelectError> {
    let tables = view.tables;
    let names = &view.facts.names;
    let recorded = tables
        .processes
        .iter()
        .map(|process| (Some(process.pid), process.name.as_str()));
    let others = names.iter().map(|name| (None, name.as_str()));
    let all: Vec<(Option<u32>, &str)> = recorded.chain(others).collect();
    let fits_process = |(pid, name): &(Option<u32>, &str), pattern: &str| match pid {
        Some(pid) => id_or_name(*pid, name, pattern),
        None => glob(pattern, name),
    };
    let processes = fits(WORDS, &selection.processes, &all, ("process", "process"), fits_process)?;
    let recorded = tables
        .threads
        .iter()
        .map(|thread| (Some(thread.tid), thread.name.as_str()));
    let others = names.iter().map(|name| (None, name.as_str()));
    let all: Vec<(Option<u32>, &str)> = recorded.chain(others).collect();
    let threads = fits(WORDS, &selection.threads, &all, ("thread", "thread"), fits_process)?;
    if processes.is_none() && threads.is_none() {
        return Ok((None, None));
    }
    let both = |process: usize, thread: usize| {
        takes(processes.as_deref(), Some(process)) && takes(threads.as_deref(), Some(thread))
    };
    let of = |(index, thread): (usize, &Thread)| both(thread.process.index(), index);
    let recorded = tables.threads.iter().enumerate().map(of).collect();
    let others = (0..names.len()).map(|index| both(tables.processes.len() + index, tables.threads.len() + index));
    Ok((Some(recorded), Some(others.collect())))
}

/// By device: whether its requests are in totals.
fn counts(view: &View<'_>, selected: Option<&[bool]>) -> Vec<bool> {
    let devices = &view.tables.devices;
    if let Some(selected) = selected {
        return selected.to_vec();
    }
    let all = (0..).map(DeviceId).take(devices.len());
    let has_some: Vec<bool> = all.map(|device| view.facts.has_request(device)).collect();
    bases(devices, &has_some)
}

/// By device: whether it is in totals over all devices. Stacked devices are not, unless only they have requests.
pub fn bases(devices: &[BlockDevice], has_some: &[bool]) -> Vec<bool> {
    let is_base: Vec<bool> = devices.iter().map(|device| !device.is_stacked()).collect();
    // There may be no disk below: the data can be in a file in memory or on another machine.
    if is_base.iter().zip(has_some).any(|(base, some)| *base && *some) {
        is_base
    } else {
        vec![true; devices.len()]
    }
}
