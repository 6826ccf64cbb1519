//! Which waits are asked for. Within one kind of condition any may fit, and every kind has to.

use std::time::Duration;

use super::view::View;
use crate::fact::{StackId, WaitFact, WaitReason};
use crate::report::functions::FunctionId;
use crate::report::select::{SelectError, Words, file_fits, fits, glob, id_or_name, stacks_under, takes};

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
    from: Duration,
    to: Option<Duration>,
    at_least: Duration,
}

impl Selector {
    /// Looks names up.
    ///
    /// # Errors
    /// When nothing of the recording has such a name: probably a slip.
    pub fn new(view: &View<'_>, selection: &Selection) -> Result<Self, SelectError> {
        let tables = view.tables;
        let functions = &view.functions;
        let by_name = |patterns: &[String], option| {
            fits(
                WORDS,
                patterns,
                &functions.all,
                ("function", option),
                |function, pattern| glob(pattern, &function.name),
            )
        };
        Ok(Self {
            files: fits(WORDS, &selection.files, &tables.files, ("file", "file"), file_fits)?,
            processes: fits(
                WORDS,
                &selection.processes,
                &tables.processes,
                ("process", "process"),
                |process, pattern| id_or_name(process.pid, &process.name, pattern),
            )?,
            threads: fits(
                WORDS,
                &selection.threads,
                &tables.threads,
                ("thread", "thread"),
                |thread, pattern| id_or_name(thread.tid, &thread.name, pattern),
            )?,
            functions: by_name(&selection.functions, "function")?,
            stacks: by_name(&selection.under, "under")?.map(|wanted| stacks_under(tables, functions, &wanted)),
            reasons: selection.reasons.clone(),
            from: selection.from.unwrap_or_default(),
            to: selection.to,
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
            && time >= self.from
            && self.to.is_none_or(|to| time < to)
            && wait.off / wait.count.max(1) >= self.at_least
            && takes(self.files.as_deref(), file.map(|file| file.index()))
            && takes(self.processes.as_deref(), process)
            && takes(self.threads.as_deref(), Some(wait.thread.index()))
            && takes(self.stacks.as_deref(), wait.stack.map(StackId::index))
            && (self.functions.is_none() || takes(self.functions.as_deref(), function()))
    }
}
