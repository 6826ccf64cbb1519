//! The files that sums are about: files of the tables by id, and paths that only system calls name by number.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Sums;
use crate::faults::view::path_of;
use fact::About;
use fact::{MappedFileId, Tables, WaitFact};

/// The largest number of paths to keep; further paths are dropped.
const PATHS: usize = 1 << 18;

/// The file that a sum is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A file in the tables.
    File(MappedFileId),
    /// The number of a path in [`Paths`].
    Path(u32),
}

/// Paths by number.
#[derive(Debug, Default)]
pub(super) struct Paths {
    list: Vec<Arc<str>>,
    known: FxHashMap<Arc<str>, u32>,
}

impl Paths {
    /// The number of a path, which is added if it is new; `None` once the limit is reached.
    fn number(&mut self, path: &str) -> Option<u32> {
        if let Some(known) = self.known.get(path) {
            return Some(*known);
        }
        if self.list.len() >= PATHS {
            return None;
        }
        let next = u32::try_from(self.list.len()).ok()?;
        let path: Arc<str> = path.into();
        self.list.push(Arc::clone(&path));
        self.known.insert(path, next);
        Some(next)
    }
}

impl Sums {
    /// The file that a wait is about.
    pub(super) fn subject(&mut self, wait: &WaitFact) -> Option<Subject> {
        match About::of(wait)? {
            About::File(file) => Some(Subject::File(file)),
            About::Path(path) => self.paths.number(path).map(Subject::Path),
        }
    }

    /// The path of a subject.
    pub fn path<'s>(&'s self, tables: &Tables, subject: Subject) -> Option<Cow<'s, str>> {
        match subject {
            Subject::File(id) => tables.files.get(id.index()).map(|file| path_of(file).into()),
            Subject::Path(number) => self.paths.list.get(number as usize).map(|path| Cow::Borrowed(&**path)),
        }
    }
}
