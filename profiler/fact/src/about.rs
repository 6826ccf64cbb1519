//! What a wait is about: one rule for the table by file, for selections, metrics and labels.

use super::wait::WaitCall;
use super::{MappedFile, MappedFileId, Tables, WaitFact};

/// The file that a wait's system call refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'a> {
    /// File of the call's descriptor.
    File(MappedFileId),
    /// Path argument, as the program spelled it: `open` and similar calls have no descriptor yet.
    Path(&'a str),
}

impl<'a> About<'a> {
    /// The target of a wait; `None` if unknown.
    pub fn of(wait: &'a WaitFact) -> Option<Self> {
        Self::of_call(wait.call.as_ref()?)
    }

    /// The target of a system call; `None` if unknown.
    pub fn of_call(call: &'a WaitCall) -> Option<Self> {
        let path = || call.path.as_deref().filter(|path| !path.is_empty());
        call.file.map(Self::File).or_else(|| path().map(Self::Path))
    }

    /// The file or path as tables show it.
    pub fn shown(self, tables: &Tables) -> Option<String> {
        match self {
            Self::File(id) => tables.files.get(id.index()).map(MappedFile::display_path),
            Self::Path(path) => Some(path.to_owned()),
        }
    }
}
