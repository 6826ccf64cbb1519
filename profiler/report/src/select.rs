//! Selection by name: resolves patterns against the tables of a recording.

mod glob;

use std::time::Duration;

pub use self::glob::glob;

use super::functions::{FunctionId, Functions};
use super::owner::cgroup_fits;
use crate::text::duration;
use base::addr::{Timestamp, ns};
use fact::fault::FaultClass;
use fact::owner::Owners;
use fact::request::Operation;
use fact::{MappedFile, ProcessId, StackId, Tables, Thread, ThreadId, WaitReason};

/// The user's filter options, of which each report uses those that its events have. An event must match one value of each
/// condition that is set; an empty list selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Paths, base names or patterns of files.
    pub files: Vec<String>,
    /// IDs, names or patterns of processes.
    pub processes: Vec<String>,
    /// IDs, names or patterns of threads.
    pub threads: Vec<String>,
    /// Paths of cgroups, or names or patterns of what they belong to.
    pub cgroups: Vec<String>,
    /// Names or patterns of the functions that events are attributed to.
    pub functions: Vec<String>,
    /// Names or patterns of functions anywhere in the stack.
    pub under: Vec<String>,
    /// Earliest start, since the start of the recording (inclusive).
    pub from: Option<Duration>,
    /// Latest start, since the start of the recording (exclusive).
    pub to: Option<Duration>,
    /// Classes of faults.
    pub classes: Vec<FaultClass>,
    /// Only faults that the kernel counts as major.
    pub major: bool,
    /// Only faults that waited for a read.
    pub waited: bool,
    /// Reasons of waits.
    pub reasons: Vec<WaitReason>,
    /// Minimum duration of waits; the average, for a row that represents several waits.
    pub at_least: Duration,
    /// Names or patterns of devices.
    pub devices: Vec<String>,
    /// Operations of requests.
    pub operations: Vec<Operation>,
}

/// The conditions that events of every kind share, resolved against the tables of a recording.
#[derive(Debug, Default)]
pub(crate) struct EventFilter {
    threads: Wanted,
    functions: Wanted,
    stacks: Wanted,
    pub(crate) span: Span,
}

impl EventFilter {
    /// Resolves names.
    ///
    /// # Errors
    /// If nothing in the recording matches a name, which is probably a typo.
    pub(crate) fn new(names: Names<'_>, selection: &Selection) -> Result<Self, SelectError> {
        let processes = names.processes(&selection.processes)?;
        let threads = names.threads(&selection.threads)?;
        let cgroups = names.cgroups(&selection.cgroups)?;
        let all = |(index, thread): (usize, &Thread)| {
            takes(processes.as_deref(), Some(thread.process.index()))
                && takes(cgroups.as_deref(), Some(thread.process.index()))
                && takes(threads.as_deref(), Some(index))
        };
        let threads = (processes.is_some() || threads.is_some() || cgroups.is_some())
            .then(|| names.tables.threads.iter().enumerate().map(all).collect());
        Self::of_threads(names, selection, threads)
    }

    /// Resolves the names of functions, for threads that are resolved already.
    pub(crate) fn of_threads(names: Names<'_>, selection: &Selection, threads: Wanted) -> Result<Self, SelectError> {
        let (recording, span) = (&names.tables.recording, Span::new(selection.from, selection.to));
        let length = recording.end.since(recording.start);
        if span.start() > length {
            return Err(SelectError::Beyond {
                from: duration(ns(span.start())),
                end: duration(ns(length)),
            });
        }
        Ok(Self {
            threads,
            functions: names.functions(&selection.functions)?,
            stacks: names.under(&selection.under)?,
            span,
        })
    }

    /// Whether the filter includes every event.
    pub(crate) fn is_empty(&self) -> bool {
        let names = [&self.threads, &self.functions, &self.stacks];
        names.iter().all(|wanted| wanted.is_none()) && self.span == Span::default()
    }

    /// Whether the filter includes an event that began at this time.
    pub(crate) fn has_time(&self, tables: &Tables, start: Timestamp) -> bool {
        self.span.has(start.since(tables.recording.start))
    }

    /// Whether the filter includes an event of this thread.
    pub(crate) fn has_thread(&self, thread: ThreadId) -> bool {
        takes(self.threads.as_deref(), Some(thread.index()))
    }

    /// Whether the filter includes an event with this stack, which is attributed to `function`.
    pub(crate) fn has_stack(&self, stack: Option<StackId>, function: impl FnOnce() -> Option<FunctionId>) -> bool {
        let function = || function().map(|FunctionId(id)| id as usize);
        takes(self.stacks.as_deref(), stack.map(StackId::index))
            && (self.functions.is_none() || takes(self.functions.as_deref(), function()))
    }

    /// Whether the filter depends on the thread or the stack of an event.
    pub(crate) fn has_names(&self) -> bool {
        self.threads.is_some() || self.functions.is_some() || self.stacks.is_some()
    }
}

/// A filter that nothing in the recording can pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A pattern matches nothing.
    #[error("no {what} with {of} matches `{pattern}`; {remedy}")]
    Pattern {
        /// Kind of thing, e.g. `thread`.
        what: &'static str,
        /// Plural of the selected events.
        of: &'static str,
        /// What was asked for, shortened.
        pattern: String,
        /// What to do, in words.
        remedy: String,
    },
    /// The time range begins after the recording's end.
    #[error("--from is {from} after the recording's start, but the recording ends after {end}")]
    Beyond {
        /// Start of the time range since the recording's start, with its unit.
        from: String,
        /// The recording's length, with its unit.
        end: String,
    },
}

impl SelectError {
    /// With another remedy if the recording has no cgroups at all.
    fn without_any(self, has_none: bool) -> Self {
        match self {
            Self::Pattern { what, of, pattern, .. } if has_none => Self::Pattern {
                what,
                of,
                pattern,
                remedy: "this recording contains no cgroups: it was created by an older ngmi, or on a machine without \
                         cgroups of version 2"
                    .to_owned(),
            },
            other => other,
        }
    }
}

/// Words of a report for error messages.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// Subcommand of the report.
    pub subcommand: &'static str,
    /// Plural of the selected events, e.g. `faults`.
    pub of: &'static str,
}

/// Lookup of names that all reports select by.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// Words for error messages.
    pub words: Words,
    /// Tables of the recording.
    pub tables: &'a Tables,
    /// Functions of the recording's frames.
    pub functions: &'a Functions,
}

/// By index: whether the item is selected; `None` selects all.
pub type Wanted = Option<Vec<bool>>;

impl Names<'_> {
    /// Resolves patterns of files.
    ///
    /// # Errors
    /// As [`fits`]; the same holds for the other methods.
    pub fn files(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        fits(self.words, patterns, &self.tables.files, ("file", "file"), file_fits)
    }

    /// Resolves IDs and patterns of processes.
    pub fn processes(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        let processes = &self.tables.processes;
        fits(
            self.words,
            patterns,
            processes,
            ("process", "process"),
            |process, pattern| id_or_name(process.pid, &process.name, pattern),
        )
    }

    /// Resolves IDs and patterns of threads.
    pub fn threads(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        let threads = &self.tables.threads;
        fits(
            self.words,
            patterns,
            threads,
            ("thread", "thread"),
            |thread, pattern| id_or_name(thread.tid, &thread.name, pattern),
        )
    }

    /// Resolves cgroups, to the processes in them.
    pub fn cgroups(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let owners = Owners::new(self.tables);
        let wanted = fits(self.words, patterns, &owners.list, ("cgroup", "cgroup"), cgroup_fits);
        let wanted = wanted.map_err(|error| error.without_any(owners.is_empty()))?;
        let processes = (0..).map(ProcessId).take(self.tables.processes.len());
        let is_wanted = |id| {
            owners
                .place(id)
                .is_some_and(|place| takes(wanted.as_deref(), Some(place)))
        };
        Ok(Some(processes.map(is_wanted).collect()))
    }

    /// Resolves patterns of functions.
    pub fn functions(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        self.functions_for("function", patterns)
    }

    /// Resolves patterns of functions to the stacks that contain one of them.
    pub fn under(self, patterns: &[String]) -> Result<Wanted, SelectError> {
        let wanted = self.functions_for("under", patterns)?;
        Ok(wanted.map(|wanted| stacks_under(self.tables, self.functions, &wanted)))
    }

    fn functions_for(self, option: &'static str, patterns: &[String]) -> Result<Wanted, SelectError> {
        let functions = &self.functions.all;
        fits(
            self.words,
            patterns,
            functions,
            ("function", option),
            |function, pattern| glob(pattern, &function.name),
        )
    }
}

/// A time range of a recording, relative to its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    from: Duration,
    to: Option<Duration>,
}

impl Span {
    /// The range from `from` (inclusive) to `to` (exclusive); `None` means unlimited.
    pub fn new(from: Option<Duration>, to: Option<Duration>) -> Self {
        Self {
            from: from.unwrap_or_default(),
            to,
        }
    }

    /// Its start.
    pub fn start(self) -> Duration {
        self.from
    }

    /// Its end; `None` means unlimited.
    pub fn end(self) -> Option<Duration> {
        self.to
    }

    /// Whether the range contains a time.
    pub fn has(self, time: Duration) -> bool {
        time >= self.from && self.to.is_none_or(|to| time < to)
    }

    /// Length of its part from `start` to `end`.
    pub fn overlap(self, start: Duration, end: Duration) -> Duration {
        let end = self.to.map_or(end, |to| to.min(end));
        end.saturating_sub(start.max(self.from))
    }
}

/// Whether the item with this index is selected; `wanted` is a result of [`fits`].
pub fn takes(wanted: Option<&[bool]>, index: Option<usize>) -> bool {
    wanted.is_none_or(|wanted| index.and_then(|index| wanted.get(index)) == Some(&true))
}

/// Selects the items that match any of the patterns; `None` if there are no patterns.
///
/// # Errors
/// When a pattern matches nothing, which is probably a typo.
pub fn fits<T>(
    words: Words,
    patterns: &[String],
    items: &[T],
    (what, option): (&'static str, &'static str),
    fits: impl Fn(&T, &str) -> bool,
) -> Result<Wanted, SelectError> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut wanted = vec![false; items.len()];
    for pattern in patterns {
        let mut any = false;
        for (item, wanted) in items.iter().zip(&mut wanted) {
            if fits(item, pattern) {
                (any, *wanted) = (true, true);
            }
        }
        if !any {
            return Err(SelectError::Pattern {
                what,
                of: words.of,
                pattern: super::text::fit(pattern, 200),
                remedy: format!("`ngmi {} FILE` without --{option} lists them", words.subcommand),
            });
        }
    }
    Ok(Some(wanted))
}

/// By stack: whether it contains one of the functions.
fn stacks_under(tables: &Tables, functions: &Functions, wanted: &[bool]) -> Vec<bool> {
    let mut under: Vec<bool> = Vec::with_capacity(tables.stacks.len());
    for node in &tables.stacks {
        // A parent precedes its children and is already computed; any other index is invalid.
        let above = node.parent.and_then(|parent| under.get(parent.index())) == Some(&true);
        let mut own = functions.of_frame(node.frame).iter();
        let here = above || own.any(|id| wanted.get(id.0 as usize) == Some(&true));
        under.push(here);
    }
    under
}

/// Whether a pattern matches the file's path, as [`path_fits`].
pub fn file_fits(file: &MappedFile, pattern: &str) -> bool {
    path_fits(&file.path, pattern)
}

/// Whether a pattern matches a path; one without a slash may also match its last component alone.
pub fn path_fits(path: &str, pattern: &str) -> bool {
    let base = path.rsplit('/').next().unwrap_or(path);
    glob(pattern, path) || (!pattern.contains('/') && glob(pattern, base))
}

/// Whether a pattern equals the ID or matches the name.
pub fn id_or_name(id: u32, name: &str, pattern: &str) -> bool {
    pattern.parse() == Ok(id) || glob(pattern, name)
}
