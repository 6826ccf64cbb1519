//! Collection and export of a row per CPU sample.

use std::sync::Arc;
use std::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::export::{Cell, Type};
use crate::functions::{Functions, outermost_first};
use crate::sorted::{Row, Scratch, Sorted};
use base::addr::{Timestamp, ns};
use fact::{EventKind, FactSink, Location, Mark, SampleFact, StackId, Tables, ThreadId, upwards};

/// Column names in order; new columns are added at the end.
pub const COLUMNS: [&str; 13] = [
    "time_ns",
    "pid",
    "tid",
    "cpu_ns",
    "weight",
    "in_kernel",
    "frame",
    "function",
    "module",
    "stack",
    "process",
    "thread",
    "stack_complete",
];

/// The type of each column.
pub const TYPES: [Type; COLUMNS.len()] = {
    use Type::{Flag, Number, Text};
    [
        Number, Number, Number, Number, Number, Flag, Text, Text, Text, Text, Text, Text, Flag,
    ]
};

/// Marks a sample without a stack.
const NONE: u32 = u32::MAX;

/// A sample in 32 bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Sample {
    time: u64,
    cpu_ns: u64,
    thread: u32,
    stack: u32,
    weight: u32,
    in_kernel: u32,
}

impl Row for Sample {
    fn key(&self) -> u64 {
        self.time
    }
}

impl From<&SampleFact> for Sample {
    fn from(sample: &SampleFact) -> Self {
        Self {
            time: sample.time.0,
            cpu_ns: ns(sample.cpu_time),
            thread: sample.thread.0,
            stack: sample.stack.map_or(NONE, StackId::number),
            weight: sample.weight,
            in_kernel: sample.in_kernel.into(),
        }
    }
}

impl From<Sample> for SampleFact {
    fn from(sample: Sample) -> Self {
        Self {
            time: Timestamp(sample.time),
            thread: ThreadId(sample.thread),
            stack: (sample.stack != NONE).then_some(StackId::new(sample.stack)),
            cpu_time: Duration::from_nanos(sample.cpu_ns),
            in_kernel: sample.in_kernel != 0,
            weight: sample.weight,
        }
    }
}

/// The samples of a recording.
#[derive(Debug, Default)]
pub struct Facts(Sorted<Sample>);

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
}

impl<'a> Exporter<'a> {
    /// An exporter for a recording.
    pub fn new(tables: &'a Tables) -> Self {
        Self {
            tables,
            functions: Functions::new(tables),
        }
    }

    /// The row of a sample, in the order of [`COLUMNS`].
    pub fn row(&self, sample: &SampleFact) -> [Cell<'_>; COLUMNS.len()] {
        let tables = self.tables;
        let thread = tables.threads.get(sample.thread.index());
        let process = thread.and_then(|thread| tables.processes.get(thread.process.index()));
        let function = self.functions.innermost(sample.stack);
        let function = function.and_then(|id| self.functions.get(id));
        let module = function.and_then(|function| function.module);
        let leaf = sample.stack.and_then(|stack| upwards(tables, stack).next());
        [
            Cell::Number(ns(sample.time.since(tables.recording.start))),
            Cell::number(process.map(|process| process.pid)),
            Cell::number(thread.map(|thread| thread.tid)),
            Cell::Number(ns(sample.cpu_time)),
            Cell::Number(u64::from(sample.weight)),
            Cell::Flag(sample.in_kernel),
            leaf.map_or(Cell::None, |frame| Cell::Text(tables.function_name(frame))),
            Cell::text(function.map(|function| function.name.as_str())),
            Cell::text(module.map(|module| tables.module_name(module))),
            (sample.stack).map_or(Cell::None, |stack| Cell::Text(outermost_first(tables, stack).into())),
            Cell::text(process.map(|process| process.name.as_str())),
            Cell::text(thread.map(|thread| thread.name.as_str())),
            (sample.stack.and_then(|stack| self.is_complete(stack))).map_or(Cell::None, Cell::Flag),
        ]
    }

    fn is_complete(&self, stack: StackId) -> Option<bool> {
        let outermost = upwards(self.tables, stack).last()?;
        let frame = self.tables.frames.get(outermost.index())?;
        Some(!matches!(frame.location, Location::Truncated(_)))
    }
}
