//! Which waits are asked for. Within one kind of condition any may fit, and every kind has to.

use std::time::Duration;

use rustc_hash::FxHashSet;

use super::view::View;
use crate::fact::About;
use crate::fact::{MappedFileId, StackId, WaitFact, WaitReason};
use crate::report::functions::FunctionId;
use crate::report::select::{Names, SelectError, Span, Words, file_fits, fits, glob, path_fits, takes};

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
    /// Path, base name or pattern of the file that the system call is about ([`About`]).
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
    files: Option<Files>,
    processes: Option<Vec<bool>>,
    threads: Option<Vec<bool>>,
    functions: Option<Vec<bool>>,
    stacks: Option<Vec<bool>>,
    reasons: Vec<WaitReason>,
    span: Span,
    at_least: Duration,
}

/// Files that are wanted.
#[derive(Debug)]
struct Files {
    /// By id.
    known: Vec<bool>,
    /// Those that only the path of a system call names.
    paths: FxHashSet<String>,
}

impl Files {
    /// Looks them up; `None`: each is.
    fn new(view: &View<'_>, patterns: &[String]) -> Result<Option<Self>, SelectError> {
        let files = &view.tables.files;
        let ids = (0_u32..).zip(files).map(|(id, _)| About::File(MappedFileId(id)));
        let all: Vec<About<'_>> = ids.chain(view.paths().map(About::Path)).collect();
        // What the table shows may be typed as it stands there: `[device 8:1 inode 7]`.
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

    /// The wait is asked for.
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
