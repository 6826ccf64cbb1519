//! Requests with the names of everything that they refer to.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::rows::{Asked, Facts, Ordered, Part};
use crate::addr::Timestamp;
use crate::fact::request::{BioSource, BlockDevice};
use crate::fact::{Location, MappedFileId, Process, RequestFact, Tables, Thread, upwards};
use crate::report::export::ns;
use crate::report::faults::view::path_of;
use crate::report::functions::{FunctionId, Functions};

/// Whose a part is, as tables group it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A function of the program.
    Function(FunctionId),
    /// A recorded thread that was in no function of its program.
    NoFunction,
    /// A kernel thread or another program, by the index of its name.
    Other(u32),
    /// Nobody saw.
    Unknown,
}

/// All requests of a recording, by the time at which they began.
#[derive(Debug)]
pub struct View<'a> {
    /// What they refer to.
    pub tables: &'a Tables,
    /// The facts themselves.
    pub facts: &'a Facts,
    /// Functions of their stacks.
    pub functions: Arc<Functions>,
    /// Names of those that are not recorded: kworkers are one.
    others: Vec<u32>,
    order: Ordered<'a>,
}

impl<'a> View<'a> {
    /// Names and orders the facts of a recording.
    pub fn new(tables: &'a Tables, facts: &'a Facts) -> Self {
        Self::sharing(tables, facts, &Arc::new(Functions::new(tables)))
    }

    /// The same with the functions of these tables, which another view has too.
    pub fn sharing(tables: &'a Tables, facts: &'a Facts, functions: &Arc<Functions>) -> Self {
        let mut first = FxHashMap::default();
        let names = (0..).zip(&facts.names);
        let others = names
            .map(|(index, name)| *first.entry(short_name(name)).or_insert(index))
            .collect();
        Self {
            tables,
            facts,
            functions: Arc::clone(functions),
            others,
            order: facts.ordered(),
        }
    }

    /// All of them, by the time at which they began.
    pub fn requests(&self) -> impl Iterator<Item = Asked> {
        self.order.iter()
    }

    /// Since the recording's start, in ns.
    pub fn time_ns(&self, time: Timestamp) -> u64 {
        ns(time.since(self.tables.recording.start))
    }

    /// The device.
    pub fn device(&self, request: &RequestFact) -> Option<&'a BlockDevice> {
        self.tables.devices.get(request.device.index())
    }

    /// The submitter.
    pub fn thread(&self, part: &Part) -> Option<&'a Thread> {
        self.tables.threads.get(part.thread?.index())
    }

    /// The submitter's process.
    pub fn process(&self, part: &Part) -> Option<&'a Process> {
        self.tables.processes.get(self.thread(part)?.process.index())
    }

    /// Whose it is.
    pub fn place(&self, part: &Part) -> Place {
        match self.functions.innermost(part.stack) {
            Some(function) => Place::Function(function),
            None if part.thread.is_some() => Place::NoFunction,
            None => self
                .others
                .get(part.name as usize)
                .map_or(Place::Unknown, |name| Place::Other(*name)),
        }
    }

    /// The name of the place.
    pub fn place_name(&self, place: Place) -> Option<String> {
        match place {
            Place::Function(id) => self.functions.get(id).map(|function| function.name.clone()),
            Place::Other(name) => Some(format!("[{}]", short_name(self.facts.names.get(name as usize)?))),
            Place::NoFunction | Place::Unknown => None,
        }
    }

    /// The path of its file.
    pub fn path(&self, part: &Part) -> Option<String> {
        self.path_of(part.file?)
    }

    /// The path of a file.
    pub fn path_of(&self, file: MappedFileId) -> Option<String> {
        self.tables.files.get(file.index()).map(path_of)
    }

    /// The stack reaches its thread's first frame; `None`: there is no stack.
    pub fn is_complete(&self, part: &Part) -> Option<bool> {
        let outermost = upwards(self.tables, part.stack?).last()?;
        let frame = self.tables.frames.get(outermost.index())?;
        Some(!matches!(frame.location, Location::Truncated(_)))
    }
}

/// Workers of the kernel do everybody's work in turn: their numbers say nothing.
fn short_name(name: &str) -> &str {
    match name.split_once('/') {
        Some(("kworker", _)) => "kworker",
        _ => name,
    }
}

/// How tables call what is no file.
pub fn no_file(source: BioSource) -> &'static str {
    match source {
        BioSource::Metadata => "(metadata of the file system)",
        BioSource::Swap => "(swap)",
        BioSource::Nothing => "(flushes and discards)",
        BioSource::Cache | BioSource::Direct => "(file not known)",
        BioSource::Unknown => "(not known)",
    }
}
