//! Selection of waits. A wait must match any value of each condition that is set, and all conditions.

use std::time::Duration;

use rustc_hash::FxHashSet;

use super::view::View;
pub use crate::select::Selection;
use crate::select::{EventFilter, Names, SelectError, Words, file_fits, fits, glob, path_fits};
use fact::About;
use fact::{MappedFileId, WaitFact, WaitReason};

/// Words for error messages.
const WORDS: Words = Words {
    subcommand: "waits",
    of: "waits",
};

/// A selection resolved against the tables of a recording.
#[derive(Debug, Default)]
pub struct Selector {
    files: Option<WaitFiles>,
    filter: EventFilter,
    reasons: Vec<WaitReason>,
    at_least: Duration,
}

/// Selected files.
#[derive(Debug)]
struct WaitFiles {
    /// By file ID: whether it is selected.
    known: Vec<bool>,
    /// Selected paths of system calls without a file ID.
    paths: FxHashSet<String>,
}

impl WaitFiles {
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
        let names = Names {
            words: WORDS,
            tables: view.tables,
            functions: &view.functions,
        };
        Ok(Self {
            files: WaitFiles::new(view, &selection.files)?,
            filter: EventFilter::new(names, selection)?,
            reasons: selection.reasons.clone(),
            at_least: selection.at_least,
        })
    }

    /// Whether a wait is selected.
    pub fn takes(&self, view: &View<'_>, wait: &WaitFact) -> bool {
        (self.reasons.is_empty() || self.reasons.contains(&wait.reason))
            && self.filter.has_time(view.tables, wait.start)
            && wait.off / wait.count.max(1) >= self.at_least
            && self.files.as_ref().is_none_or(|files| files.takes(wait))
            && self.filter.has_thread(wait.thread)
            && self.filter.has_stack(wait.stack, || view.function(wait.stack))
    }
}
