//! Selection of faults. A fault matches if it fits at least one value of every kind of condition that is given.

use std::time::Duration;

use super::view::View;
use crate::functions::FunctionId;
use crate::select::{Names, SelectError, Span, Words, takes};
use fact::fault::FaultClass;
use fact::{FaultFact, StackId};

const WORDS: Words = Words {
    verb: "faults",
    of: "faults",
};

/// The conditions that a person gave; an empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Path, base name, or pattern of a file.
    pub files: Vec<String>,
    /// Process id, name, or pattern of a name.
    pub processes: Vec<String>,
    /// Thread id, name, or pattern of a name.
    pub threads: Vec<String>,
    /// Classes of faults.
    pub classes: Vec<FaultClass>,
    /// Name or pattern of the function that the fault is attributed to.
    pub functions: Vec<String>,
    /// Name or pattern of a function anywhere in the stack.
    pub under: Vec<String>,
    /// Start of the span, relative to the recording's start.
    pub from: Option<Duration>,
    /// End of the span, relative to the recording's start; exclusive.
    pub to: Option<Duration>,
    /// Only faults that the kernel counts as major.
    pub major: bool,
    /// Only faults that waited for a read.
    pub waited: bool,
}

/// A selection that is resolved against the tables of a recording.
#[derive(Debug, Default)]
pub struct Selector {
    files: Option<Vec<bool>>,
    threads: Option<Vec<bool>>,
    functions: Option<Vec<bool>>,
    stacks: Option<Vec<bool>>,
    classes: Vec<FaultClass>,
    span: Span,
    major: bool,
    waited: bool,
}

impl Selector {
    /// Resolves names.
    ///
    /// # Errors
    /// If nothing in the recording matches a name, which is probably a typo.
    pub fn new(view: &View<'_>, selection: &Selection) -> Result<Self, SelectError> {
        let tables = view.tables;
        let names = Names {
            words: WORDS,
            tables,
            functions: &view.functions,
        };
        let files = names.files(&selection.files)?;
        let processes = names.processes(&selection.processes)?;
        let mut threads = names.threads(&selection.threads)?;
        if let Some(processes) = processes {
            let of_process = (tables.threads.iter()).map(|thread| processes.get(thread.process.index()) == Some(&true));
            threads = Some(match threads {
                Some(threads) => threads
                    .iter()
                    .zip(of_process)
                    .map(|(one, other)| *one && other)
                    .collect(),
                None => of_process.collect(),
            });
        }
        Ok(Self {
            files,
            threads,
            functions: names.functions(&selection.functions)?,
            stacks: names.under(&selection.under)?,
            classes: selection.classes.clone(),
            span: Span::new(selection.from, selection.to),
            major: selection.major,
            waited: selection.waited,
        })
    }

    /// Whether the selection includes a fault.
    pub fn takes(&self, view: &View<'_>, fault: &FaultFact) -> bool {
        let time = fault.start.since(view.tables.recording.start);
        (!self.major || fault.major)
            && (!self.waited || fault.waited())
            && (self.classes.is_empty() || self.classes.contains(&fault.class))
            && self.span.has(time)
            && takes(self.files.as_deref(), fault.place.map(|place| place.file.index()))
            && takes(self.threads.as_deref(), Some(fault.thread.index()))
            && takes(self.stacks.as_deref(), fault.stack.map(StackId::index))
            && (self.functions.is_none()
                || takes(
                    self.functions.as_deref(),
                    view.function(fault).map(|FunctionId(id)| id as usize),
                ))
    }
}
