//! Selection of faults.

use super::view::View;
pub use crate::select::Selection;
use crate::select::{EventFilter, Names, SelectError, Wanted, Words, takes};
use fact::fault::FaultClass;
use fact::{FaultFact, MappedFileId};

const WORDS: Words = Words {
    subcommand: "faults",
    of: "faults",
};

/// A selection that is resolved against the tables of a recording.
#[derive(Debug, Default)]
pub struct Selector {
    files: Wanted,
    filter: EventFilter,
    classes: Vec<FaultClass>,
    major: bool,
    waited: bool,
}

impl Selector {
    /// Resolves names.
    ///
    /// # Errors
    /// If nothing in the recording matches a name, which is probably a typo.
    pub fn new(view: &View<'_>, selection: &Selection) -> Result<Self, SelectError> {
        let names = Names {
            words: WORDS,
            tables: view.tables,
            functions: &view.functions,
        };
        Ok(Self {
            files: names.files(&selection.files)?,
            filter: EventFilter::new(names, selection)?,
            classes: selection.classes.clone(),
            major: selection.major,
            waited: selection.waited,
        })
    }

    /// Whether the selection includes a file, whatever happened to it.
    pub fn takes_file(&self, file: MappedFileId) -> bool {
        let is_of_faults = self.major || self.waited || !self.classes.is_empty();
        !is_of_faults && self.filter.is_empty() && takes(self.files.as_deref(), Some(file.index()))
    }

    /// Whether the selection includes a fault.
    pub fn takes(&self, view: &View<'_>, fault: &FaultFact) -> bool {
        (!self.major || fault.major)
            && (!self.waited || fault.waited())
            && (self.classes.is_empty() || self.classes.contains(&fault.class))
            && self.filter.has_time(view.tables, fault.start)
            && takes(self.files.as_deref(), fault.place.map(|place| place.file.index()))
            && self.filter.has_thread(fault.thread)
            && self.filter.has_stack(fault.stack, || view.function(fault))
    }
}
