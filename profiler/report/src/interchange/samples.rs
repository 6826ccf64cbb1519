//! Collection and export of a row per CPU sample.

use std::borrow::Cow;
use std::sync::Arc;

use crate::export::{Cell, columns};
use crate::functions::{Function, Functions, outermost_first};
use crate::lookup::Lookup as _;
use crate::owner::OwnerCells;
use crate::sample::PackedSample;
use crate::sorted::{Scratch, Sorted};
use fact::owner::Owners;
use fact::{EventKind, FactSink, Mark, Process, SampleFact, Tables, Thread, upwards};

/// The samples of a recording.
#[derive(Debug, Default)]
pub struct Facts(Sorted<PackedSample>);

impl FactSink for Facts {
    fn wants_stacks(&self, kind: EventKind) -> bool {
        kind == EventKind::Sample
    }

    fn sample(&mut self, _: &Tables, sample: &SampleFact) {
        self.0.push(sample.into());
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}
}

impl Facts {
    /// An empty collection that keeps samples in memory up to a limit, and beyond it in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self(Sorted::beyond_memory(scratch))
    }

    /// The number of samples.
    pub fn len(&self) -> u32 {
        self.0.len()
    }

    /// There are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `take` with each sample, sorted by time, until it fails.
    ///
    /// # Errors
    /// The first error of `take`.
    pub fn samples<E>(&self, mut take: impl FnMut(&SampleFact) -> Result<(), E>) -> Result<(), E> {
        self.0.ordered().iter().try_for_each(|sample| take(&sample.into()))
    }
}

/// Converts samples to rows.
#[derive(Debug)]
pub struct Exporter<'a> {
    tables: &'a Tables,
    functions: Functions,
    owners: Owners,
}

impl<'a> Exporter<'a> {
    /// An exporter for a recording.
    pub fn new(tables: &'a Tables) -> Self {
        Self {
            tables,
            functions: Functions::new(tables),
            owners: Owners::new(tables),
        }
    }

    /// The row of a sample, in the order of [`COLUMNS`].
    pub fn row<'r>(&'r self, sample: &'r SampleFact) -> [Cell<'r>; COLUMNS.len()] {
        let tables = self.tables;
        let function = self.functions.innermost(sample.stack);
        cells(&SampleRow {
            tables,
            sample,
            thread: tables.thread(sample.thread),
            process: tables.process(sample.thread),
            function: function.and_then(|id| self.functions.get(id)),
            owner: OwnerCells::new(tables, &self.owners, Some(sample.thread)),
        })
    }
}

/// A sample and what it refers to.
struct SampleRow<'r> {
    tables: &'r Tables,
    sample: &'r SampleFact,
    thread: Option<&'r Thread>,
    process: Option<&'r Process>,
    function: Option<&'r Function>,
    owner: OwnerCells<'r>,
}

columns! {
    fn cells<'r>(row: &SampleRow<'r>);
    "time_ns": Number = row.tables.time_ns(row.sample.time);
    "pid": Number = row.process.map(|process| process.pid);
    "tid": Number = row.thread.map(|thread| thread.tid);
    "cpu_ns": Number = row.sample.cpu_time;
    "weight": Number = row.sample.weight;
    "in_kernel": Flag = row.sample.in_kernel;
    "frame": Text = row.frame();
    "function": Text = row.function.map(|function| function.name.as_str());
    "module": Text = row.function.and_then(|function| Some(row.tables.module_name(function.module?)));
    "stack": Text = row.sample.stack.map(|stack| outermost_first(row.tables, stack));
    "process": Text = row.process.map(|process| process.name.as_str());
    "thread": Text = row.thread.map(|thread| thread.name.as_str());
    "stack_complete": Flag = row.tables.is_complete(row.sample.stack);
    "cgroup": Text = row.owner.cgroup();
    "cgroup_inherited": Flag = row.owner.is_inherited();
    "unit": Text = row.owner.unit();
    "container": Text = row.owner.container();
    "container_id": Text = row.owner.container_id();
    "pod": Text = row.owner.pod();
}

impl<'r> SampleRow<'r> {
    fn frame(&self) -> Option<Cow<'r, str>> {
        let frame = upwards(self.tables, self.sample.stack?).next()?;
        Some(self.tables.function_name(frame))
    }
}
