//! A row a CPU sample: collected, and the columns.

use crate::addr::ns;
use crate::fact::{FactSink, Location, Mark, SampleFact, StackId, Tables};
use crate::report::blocks::Blocks;
use crate::report::export::{Cell, Type};
use crate::report::functions::{Functions, outermost_first, upwards};

/// Columns in their order; new ones come at the end.
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

/// What each column holds.
pub const TYPES: [Type; COLUMNS.len()] = {
    use Type::{Flag, Number, Text};
    [
        Number, Number, Number, Number, Number, Flag, Text, Text, Text, Text, Text, Text, Flag,
    ]
};

/// The samples of a recording.
#[derive(Debug, Default)]
pub struct Facts(Blocks<SampleFact>);

impl FactSink for Facts {
    fn sample(&mut self, _: &Tables, sample: &SampleFact) {
        self.0.push(*sample);
    }

    fn mark(&mut self, _: &Tables, _: &Mark) {}
}

impl Facts {
    /// How many there are.
    pub fn len(&self) -> u32 {
        self.0.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, by time.
    pub fn samples(&self) -> impl Iterator<Item = &SampleFact> {
        let order = self.0.order_by(|sample| sample.time);
        order.into_iter().filter_map(|number| self.0.get(number))
    }
}

/// Turns samples into rows.
#[derive(Debug)]
pub struct Exporter<'a> {
    tables: &'a Tables,
    functions: Functions,
}

impl<'a> Exporter<'a> {
    /// Of a recording.
    pub fn new(tables: &'a Tables) -> Self {
        Self {
            tables,
            functions: Functions::new(tables),
        }
    }

    /// A row, in the order of [`COLUMNS`].
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
