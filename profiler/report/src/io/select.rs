//! Selection of requests. A request must match any value of each condition that is set, and all conditions.

use super::rows::{Asked, Part};
use super::view::{Place, View};
pub use crate::select::Selection;
use crate::select::{EventFilter, Names, SelectError, Span, Wanted, Words, fits, glob, id_or_name, takes};
use fact::request::{BlockDevice, DeviceId, Operation};
use fact::{MappedFileId, RequestFact, Thread};

const WORDS: Words = Words {
    subcommand: "io",
    of: "requests",
};

/// A selection resolved against the tables of a recording.
#[derive(Debug)]
pub struct Selector {
    files: Wanted,
    filter: EventFilter,
    /// Selected names of unrecorded submitters.
    others: Wanted,
    devices: Wanted,
    operations: Vec<Operation>,
    /// By device: whether it is in totals.
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
        let cgroups = names.cgroups(&selection.cgroups)?;
        let (threads, others) = submitters(view, selection, cgroups.as_deref())?;
        Ok(Self {
            counts: counts(view, devices.as_deref()),
            devices,
            files: names.files(&selection.files)?,
            others,
            filter: EventFilter::of_threads(names, selection, threads)?,
            operations: selection.operations.clone(),
        })
    }

    /// Removes the parts that are not selected. Returns false if the request is not selected either.
    pub fn narrows(&self, view: &View<'_>, asked: &mut Asked) -> bool {
        asked.parts.retain(|part| self.takes_part(view, part));
        self.takes(view, &asked.request) && (!self.chooses_parts() || !asked.parts.is_empty())
    }

    /// Whether the request itself is selected, regardless of its submitters.
    fn takes(&self, view: &View<'_>, request: &RequestFact) -> bool {
        self.filter.has_time(view.tables, request.start)
            && (self.operations.is_empty() || self.operations.contains(&request.operation))
            && takes(self.devices.as_deref(), Some(request.device.index()))
    }

    /// Whether a part of a request is selected.
    fn takes_part(&self, view: &View<'_>, part: &Part) -> bool {
        let is_wanted = match part.thread {
            Some(thread) => self.filter.has_thread(thread),
            None => takes(self.others.as_deref(), Some(part.name as usize)),
        };
        let function = || match view.place(part) {
            Place::Function(id) => Some(id),
            _ => None,
        };
        is_wanted
            && takes(self.files.as_deref(), part.file.map(MappedFileId::index))
            && self.filter.has_stack(part.stack, function)
    }

    /// Whether the selection filters parts, by submitter or file.
    pub(super) fn chooses_parts(&self) -> bool {
        self.files.is_some() || self.filter.has_names()
    }

    /// Whether nothing is filtered out.
    pub(super) fn is_everything(&self) -> bool {
        let all = self.devices.is_none() && self.operations.is_empty() && !self.chooses_parts();
        all && self.filter.span == Span::default()
    }

    /// Whether the request is in totals over devices. A stacked device is not, since the devices below it get the same requests
    /// again; a device that is selected by name always is.
    pub fn counts(&self, request: &RequestFact) -> bool {
        self.counts.get(request.device.index()) == Some(&true)
    }
}

/// Resolves the selected threads, and the selected names of unrecorded submitters.
fn submitters(
    view: &View<'_>,
    selection: &Selection,
    cgroups: Option<&[bool]>,
) -> Result<(Wanted, Wanted), SelectError> {
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
    if processes.is_none() && threads.is_none() && cgroups.is_none() {
        return Ok((None, None));
    }
    // Nothing is known of the cgroups of those that are not recorded: their indices are beyond the known ones.
    let both = |process: usize, thread: usize| {
        takes(processes.as_deref(), Some(process))
            && takes(cgroups, Some(process))
            && takes(threads.as_deref(), Some(thread))
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
