//! Which waits are asked for. Within one kind of condition any may fit, and every kind has to.

use std::time::Duration;

use super::view::View;
use crate::fact::{MappedFileId, StackId, WaitFact, WaitReason};
use crate::report::functions::FunctionId;
use crate::report::select::{Names, SelectError, Span, Words, takes};

/// How an error speaks of waits.
const WORDS: Words = Words {
    verb: "waits",
    of: "waits",
};

/// What a person asked for; empty lists ask for everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Process id, or name or pattern.
    pub processes: Vec<String>,
    /// Thread id, or name or pattern.
    pub threads: Vec<String>,
    /// Reasons.
    pub reasons: Vec<WaitReason>,
    /// Path, base name or pattern of the file that the system call is about.
    pub files: Vec<String>,
    /// Name or pattern of the function that waits.
    pub functions: Vec<String>,
    /// Name or pattern of a function anywhere in the stack.
    pub under: Vec<String>,
    /// Not begun before this time since the recording's start.
    pub from: Option<Duration>,
    /// Begun before this time since the recording's start.
    pub to: Option<Duration>,
    /// Only those that took as long; of several in one, on average.
    pub at_least: Duration,
}

/// A selection, looked up once in the tables of a recording.
#[derive(Debug, Default)]
pub struct Selector {
    files: Option<Vec<bool>>,
    processes: Option<Vec<bool>>,
    threads: Option<Vec<bool>>,
    functions: Option<Vec<bool>>,
    stacks: Option<Vec<bool>>,
    reasons: Vec<WaitReason>,
    span: Span,
    at_least: Duration,
}

impl Selector {
    /// Looks names up.
    ///
    /// # Errors
    /// When nothing of the recording has such a name: probably a slip.
    pub fn new(view: &View<'_>, selection: &Selection) -> Result<Self, SelectError> {
        let tables = view.tables;
        let names = Names {
            words: WORDS,
            tables,
            functions: &view.functions,
        };
        Ok(Self {
            files: names.files(&selection.files)?,
            processes: names.processes(&selection.processes)?,
            threads: names.threads(&selection.threads)?,
            functions: names.functions(&selection.functions)?,
            stacks: names.under(&selection.under)?,
            reasons: selection.reasons.clone(),
            span: Span::new(selection.from, selection.to),
            at_least: selection.at_least,
        })
    }

    /// The wait is asked for.
    pub fn takes(&self, view: &View<'_>, wait: &WaitFact) -> bool {
        let time = wait.start.since(view.tables.recording.start);
        let file = wait.call.as_ref().and_then(|call| call.file);
        let process = view.thread(wait.thread).map(|thread| thread.process.index());
        let function = || view.function(wait.stack).map(|FunctionId(id)| id as usize);
        (self.reasons.is_empty() || self.reasons.contains(&wait.reason))
            && self.span.has(time)
            && wait.off / wait.count.max(1) >= self.at_least
            && takes(self.files.as_deref(), file.map(MappedFileId::index))
            && takes(self.processes.as_deref(), process)
            && takes(self.threads.as_deref(), Some(wait.thread.index()))
            && takes(self.stacks.as_deref(), wait.stack.map(StackId::index))
            && (self.functions.is_none() || takes(self.functions.as_deref(), function()))
    }
}
