//! Requests with the names of the devices, files, threads and functions that they refer to.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::rows::{Asked, Facts, Ordered, Part};
use crate::faults::view::path_of;
use crate::functions::{FunctionId, Functions};
use fact::owner::Owners;
use fact::request::BioSource;
use fact::{MappedFileId, Tables};

/// The submitter of a part, as tables group it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A function of the program.
    Function(FunctionId),
    /// A recorded thread, outside any function of its program.
    NoFunction,
    /// A kernel thread or another program, by the index of its name.
    Other(u32),
    /// Unknown submitter.
    Unknown,
}

/// All requests of a recording, ordered by start time.
#[derive(Debug)]
pub struct View<'a> {
    /// Tables that the requests refer to.
    pub tables: &'a Tables,
    /// The collected requests.
    pub facts: &'a Facts,
    /// Functions of the stacks.
    pub functions: Arc<Functions>,
    /// What the processes belong to.
    pub owners: Owners,
    /// By name index of unrecorded submitters: the index that represents them. All kworkers share one.
    others: Vec<u32>,
    order: Ordered<'a>,
}

impl<'a> View<'a> {
    /// Names and orders the requests of a recording.
    pub fn new(tables: &'a Tables, facts: &'a Facts) -> Self {
        Self::sharing(tables, facts, &Arc::new(Functions::new(tables)))
    }

    /// Like [`View::new`], with functions shared by another view of the same tables.
    pub fn sharing(tables: &'a Tables, facts: &'a Facts, functions: &Arc<Functions>) -> Self {
        let mut first = FxHashMap::default();
        let names = (0..).zip(facts.names.iter());
        let others = names
            .map(|(index, name)| *first.entry(short_name(name)).or_insert(index))
            .collect();
        Self {
            tables,
            facts,
            functions: Arc::clone(functions),
            owners: Owners::new(tables),
            others,
            order: facts.ordered(),
        }
    }

    /// Iterates over all requests by start time.
    pub fn requests(&self) -> impl Iterator<Item = Asked> {
        self.order.iter()
    }

    /// The submitter, for grouping.
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

    /// Name of a place; in brackets, a kernel thread or another program.
    pub fn place_name(&self, place: Place) -> Option<String> {
        match place {
            Place::Function(id) => self.functions.get(id).map(|function| function.name.clone()),
            Place::Other(name) => Some(format!("[{}]", short_name(self.facts.names.get(name as usize)?))),
            Place::NoFunction | Place::Unknown => None,
        }
    }

    /// Path of a file.
    pub fn path_of(&self, file: MappedFileId) -> Option<String> {
        self.tables.files.get(file.index()).map(path_of)
    }
}

/// Drops the number of a kernel worker: workers serve all submitters in turn, so it has no meaning.
fn short_name(name: &str) -> &str {
    match name.split_once('/') {
        Some(("kworker", _)) => "kworker",
        _ => name,
    }
}

/// Label in tables for a source that is not a file.
pub fn no_file(source: BioSource) -> &'static str {
    match source {
        BioSource::Metadata => "(file system metadata)",
        BioSource::Swap => "(swap)",
        BioSource::Nothing => "(flushes and discards)",
        BioSource::Cache | BioSource::Direct => "(unknown file)",
        BioSource::Unknown => "(unknown)",
    }
}
