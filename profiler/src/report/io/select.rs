//! Which requests are asked for. Within one kind of condition any may fit, and every kind has to.

use std::time::Duration;

use super::rows::{Asked, Part};
use super::view::{Place, View};
use crate::fact::request::{BlockDevice, DeviceId, Operation};
use crate::fact::{MappedFileId, RequestFact, StackId, Thread};
use crate::report::select::{Names, SelectError, Span, Wanted, Words, fits, glob, id_or_name, takes};

const WORDS: Words = Words {
    verb: "io",
    of: "requests",
};

/// What a person asked for; empty lists ask for everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Name or pattern of a device.
    pub devices: Vec<String>,
    /// Path, base name or pattern of a file.
    pub files: Vec<String>,
    /// Process id, or name or pattern.
    pub processes: Vec<String>,
    /// Thread id, or name or pattern.
    pub threads: Vec<String>,
    /// Name or pattern of the function that asked.
    pub functions: Vec<String>,
    /// Name or pattern of a function anywhere in the stack.
    pub under: Vec<String>,
    /// What the device did.
    pub operations: Vec<Operation>,
    /// Not before this time since the recording's start.
    pub from: Option<Duration>,
    /// Before this time since the recording's start.
    pub to: Option<Duration>,
}

/// A selection, looked up once in the tables of a recording.
#[derive(Debug, Default)]
pub struct Selector {
    devices: Option<Vec<bool>>,
    files: Option<Vec<bool>>,
    threads: Option<Vec<bool>>,
    /// Of those that are not recorded.
    others: Option<Vec<bool>>,
    functions: Option<Vec<bool>>,
    stacks: Option<Vec<bool>>,
    operations: Vec<Operation>,
    span: Span,
    /// By device: its requests are in sums.
    counts: Vec<bool>,
}

impl Selector {
    /// Looks names up.
    ///
    /// # Errors
    /// When nothing of the recording has such a name: probably a slip.
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

    /// Takes the parts away that are not asked for. False: so is the request.
    pub fn narrows(&self, view: &View<'_>, asked: &mut Asked) -> bool {
        asked.parts.retain(|part| self.takes_part(view, part));
        self.takes(view, &asked.request) && (!self.chooses_parts() || !asked.parts.is_empty())
    }

    /// The request is asked for, whoever asked for it.
    fn takes(&self, view: &View<'_>, request: &RequestFact) -> bool {
        let time = request.start.since(view.tables.recording.start);
        self.span.has(time)
            && (self.operations.is_empty() || self.operations.contains(&request.operation))
            && takes(self.devices.as_deref(), Some(request.device.index()))
    }

    /// The part of a request is asked for.
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

    /// Parts are asked for by who or what they are of.
    pub fn chooses_parts(&self) -> bool {
        let lists = [&self.files, &self.threads, &self.others, &self.functions, &self.stacks];
        lists.into_iter().any(Option::is_some)
    }

    /// Everything is asked for.
    pub fn is_everything(&self) -> bool {
        let all = self.devices.is_none() && self.operations.is_empty() && !self.chooses_parts();
        all && self.span == Span::default()
    }

    /// The request is in sums over devices: what a device made of others is asked for, they are asked for again. A device that is
    /// selected by its name counts.
    pub fn counts(&self, request: &RequestFact) -> bool {
        self.counts.get(request.device.index()) == Some(&true)
    }
}

/// Which threads are asked for, and which names of those that are not recorded.
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

/// By device: its requests are in sums.
fn counts(view: &View<'_>, selected: Option<&[bool]>) -> Vec<bool> {
    let devices = &view.tables.devices;
    if let Some(selected) = selected {
        return selected.to_vec();
    }
    let all = (0..).map(DeviceId).take(devices.len());
    let has_some: Vec<bool> = all.map(|device| view.facts.has_request(device)).collect();
    bases(devices, &has_some)
}

/// By device, that it counts in sums over all: not one that is made of others with requests of their own.
pub fn bases(devices: &[BlockDevice], has_some: &[bool]) -> Vec<bool> {
    let is_base: Vec<bool> = devices.iter().map(|device| !device.is_stacked()).collect();
    // What is below may be no disk: a file in memory, another machine.
    if is_base.iter().zip(has_some).any(|(base, some)| *base && *some) {
        is_base
    } else {
        vec![true; devices.len()]
    }
}
