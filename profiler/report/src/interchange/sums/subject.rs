//! The files that sums are about: files of the tables by id, and paths that only system calls name by number.

use std::borrow::Cow;

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
    /// The number of a path.
    Path(u32),
}

impl Sums {
    /// The file that a wait is about.
    pub(super) fn subject(&mut self, wait: &WaitFact) -> Option<Subject> {
        match About::of(wait)? {
            About::File(file) => Some(Subject::File(file)),
            About::Path(path) => self.paths.number(path, PATHS, |path| path.into()).map(Subject::Path),
        }
    }

    /// The path of a subject.
    pub fn path<'s>(&'s self, tables: &Tables, subject: Subject) -> Option<Cow<'s, str>> {
        match subject {
            Subject::File(id) => tables.files.get(id.index()).map(|file| path_of(file).into()),
            Subject::Path(number) => self.paths.get(number as usize).map(|path| Cow::Borrowed(&**path)),
        }
    }
}
