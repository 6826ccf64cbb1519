//! What a wait is about: one rule for the table by file, for selections, figures and labels.

use super::wait::WaitCall;
use super::{MappedFile, MappedFileId, Tables, WaitFact};

/// The file that a wait's system call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'a> {
    /// Its descriptor's.
    File(MappedFileId),
    /// The one that it was called with, as the program spelled it: `open` and its kind have no descriptor yet.
    Path(&'a str),
}

impl<'a> About<'a> {
    /// Of a wait; `None`: about none that is known.
    pub fn of(wait: &'a WaitFact) -> Option<Self> {
        Self::of_call(wait.call.as_ref()?)
    }

    /// Of a system call.
    pub fn of_call(call: &'a WaitCall) -> Option<Self> {
        let path = || call.path.as_deref().filter(|path| !path.is_empty());
        call.file.map(Self::File).or_else(|| path().map(Self::Path))
    }

    /// As tables show it.
    pub fn shown(self, tables: &Tables) -> Option<String> {
        match self {
            Self::File(id) => tables.files.get(id.index()).map(MappedFile::display_path),
            Self::Path(path) => Some(path.to_owned()),
        }
    }
}
