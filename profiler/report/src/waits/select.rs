//! Selection of waits. A wait must match any value of each condition that is set, and all conditions.

use std::time::Duration;

use rustc_hash::FxHashSet;

use super::view::View;
use crate::functions::FunctionId;
use crate::select::{Names, SelectError, Span, Words, file_fits, fits, glob, path_fits, takes};
use fact::About;
use fact::{MappedFileId, StackId, WaitFact, WaitReason};

/// Words for error messages.
const WORDS: Words = Words {
    verb: "waits",
    of: "waits",
};

/// The user's filter options; an empty list selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// IDs, names or patterns of processes.
    pub processes: Vec<String>,
    /// IDs, names or patterns of threads.
    pub threads: Vec<String>,
    /// Reasons of waits.
    pub reasons: Vec<WaitReason>,
    /// Paths, base names or patterns of the system call's file ([`About`]).
    pub files: Vec<String>,
    /// Names or patterns of waiting functions.
    pub functions: Vec<String>,
    /// Names or patterns of functions anywhere in the stack.
    pub under: Vec<String>,
    /// Earliest start, since the start of the recording (inclusive).
    pub from: Option<Duration>,
    /// Latest start, since the start of the recording (exclusive).
    pub to: Option<Duration>,
    /// Minimum duration; the average, for a row that represents several waits.
    pub at_least: Duration,
}

/// A selection resolved against the tables of a recording.
#[derive(Debug, Default)]
pub struct Selector {
    files: Option<Files>,
    processes: Option<Vec<bool>>,
    threads: Option<Vec<bool>>,
    functions: Option<Vec<bool>>,
    stacks: Option<Vec<bool>>,
    reasons: Vec<WaitReason>,
    span: Span,
    at_least: Duration,
}

/// Selected files.
#[derive(Debug)]
struct Files {
    /// By file ID: whether it is selected.
    known: Vec<bool>,
    /// Selected paths of system calls without a file ID.
    paths: FxHashSet<String>,
}

impl Files {
    /// Resolves patterns of files; `None` selects all.
    fn new(view: &View<'_>, patterns: &[String]) -> Result<Option<Self>, SelectError> {
        let files = &view.tables.files;
        let ids = (0_u32..).zip(files).map(|(id, _)| About::File(MappedFileId(id)));
        let all: Vec<About<'_>> = ids.chain(view.paths().map(About::Path)).collect();
        // Accept names as the table shows them: `[device 8:1 inode 7]`.
        let is_shown = |about: &About<'_>, pattern: &str| {
            let shown = about.shown(view.tables);
            shown.is_some_and(|shown| glob(pattern, &shown))
        };
        let is_named = |about: &About<'_>, pattern: &str| match about {
            About::File(id) => files.get(id.index()).is_some_and(|file| file_fits(file, pattern)),
            About::Path(path) => path_fits(path, pattern),
        };
        let wanted = fits(WORDS, patterns, &all, ("file", "file"), |about, pattern| {
            is_named(about, pattern) || is_shown(about, pattern)
        })?;
        let Some(mut known) = wanted else { return Ok(None) };
        let paths = known.split_off(files.len()).into_iter().zip(view.paths());
        let paths = paths.filter(|(wanted, _)| *wanted).map(|(_, path)| path.to_owned());
        Ok(Some(Self {
            known,
            paths: paths.collect(),
        }))
    }

    fn takes(&self, wait: &WaitFact) -> bool {
        match About::of(wait) {
            Some(About::File(id)) => self.known.get(id.index()) == Some(&true),
            Some(About::Path(path)) => self.paths.contains(path),
            None => false,
        }
    }
}

impl Selector {
    /// Looks up the names of a selection.
    ///
    /// # Errors
    /// When nothing in the recording matches a name, which is probably a typo.
    pub fn new(view: &View<'_>, selection: &Selection) -> Result<Self, SelectError> {
        let tables = view.tables;
        let names = Names {
            words: WORDS,
            tables,
            functions: &view.functions,
        };
        Ok(Self {
            files: Files::new(view, &selection.files)?,
            processes: names.processes(&selection.processes)?,
            threads: names.threads(&selection.threads)?,
            functions: names.functions(&selection.functions)?,
            stacks: names.under(&selection.under)?,
            reasons: selection.reasons.clone(),
            span: Span::new(selection.from, selection.to),
            at_least: selection.at_least,
        })
    }

    /// Whether a wait is selected.
    pub fn takes(&self, view: &View<'_>, wait: &WaitFact) -> bool {
        let time = wait.start.since(view.tables.recording.start);
        let process = view.thread(wait.thread).map(|thread| thread.process.index());
        let function = || view.function(wait.stack).map(|FunctionId(id)| id as usize);
        (self.reasons.is_empty() || self.reasons.contains(&wait.reason))
            && self.span.has(time)
            && wait.off / wait.count.max(1) >= self.at_least
            && self.files.as_ref().is_none_or(|files| files.takes(wait))
            && takes(self.processes.as_deref(), process)
            && takes(self.threads.as_deref(), Some(wait.thread.index()))
            && takes(self.stacks.as_deref(), wait.stack.map(StackId::index))
            && (self.functions.is_none() || takes(self.functions.as_deref(), function()))
    }
}
