//! A view of faults that resolves the names of everything they refer to.

use std::sync::Arc;

use super::phase::{Phase, Phases};
use super::rows::Facts;
use crate::dirty::Dirtied;
use crate::functions::{FunctionId, Functions};
use crate::lookup::Lookup as _;
use crate::sorted::Ordered;
use fact::fault::{FilePlace, MappedFile};
use fact::owner::Owners;
use fact::reduce::finding_inputs::FindingInputs;
use fact::reduce::packed::PackedFault;
use fact::reduce::pages::Pages;
use fact::{FaultFact, Tables};

/// All faults of a recording, sorted by start.
#[derive(Debug)]
pub struct View<'a> {
    /// The tables that faults refer to.
    pub tables: &'a Tables,
    /// The functions of their stacks.
    pub functions: Arc<Functions>,
    /// What the processes belong to.
    pub owners: Owners,
    /// The phases of the processes.
    pub phases: Phases,
    facts: &'a Facts,
    order: Ordered<'a, PackedFault>,
}

impl<'a> View<'a> {
    /// Sorts the facts of a recording and resolves their names.
    pub fn new(tables: &'a Tables, facts: &'a Facts) -> Self {
        Self::sharing(tables, facts, &Arc::new(Functions::new(tables)))
    }

    /// Like [`Self::new`], but shares the functions of `tables` with another view.
    pub fn sharing(tables: &'a Tables, facts: &'a Facts, functions: &Arc<Functions>) -> Self {
        let order = facts.rows.ordered();
        let phases = Phases::new(tables, functions, facts, &order);
        Self {
            tables,
            functions: Arc::clone(functions),
            owners: Owners::new(tables),
            phases,
            facts,
            order,
        }
    }

    /// The fate of the files' pages.
    pub fn pages(&self) -> &'a Pages {
        &self.facts.pages
    }

    /// Whether the source records which anonymous memory is `.bss`.
    pub fn knows_bss(&self) -> bool {
        !self.facts.is_without_mappings
    }

    /// Copies of the files' pages, by process.
    pub fn dirtied(&self) -> &'a Dirtied {
        &self.facts.dirtied
    }

    /// The data from which findings are derived.
    pub fn inputs(&self) -> FindingInputs {
        self.facts.inputs.finish(self.tables, &self.facts.pages)
    }

    /// The number of faults that the recorded ones represent.
    pub fn count(&self) -> u64 {
        self.facts.rows.faults()
    }

    /// The number of recorded faults.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// There are no faults.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All faults, sorted by start.
    pub fn faults(&self) -> impl Iterator<Item = FaultFact> {
        self.order.iter().map(|row| self.facts.rows.fault(&row))
    }

    /// A fault's start, in ns since the recording's start.
    pub fn time_ns(&self, fault: &FaultFact) -> u64 {
        self.tables.time_ns(fault.start)
    }

    /// The file of a place.
    pub fn file(&self, place: FilePlace) -> Option<&'a MappedFile> {
        self.tables.files.get(place.file.index())
    }

    /// The section that contains the byte.
    pub fn section(&self, fault: &FaultFact) -> Option<&'a str> {
        let place = fault.place?;
        self.file(place)?.section(place.byte)
    }

    /// The symbol that contains the byte.
    pub fn symbol(&self, fault: &FaultFact) -> Option<&'a str> {
        let place = fault.place?;
        self.file(place)?.symbol(place.byte)
    }

    /// The function that a fault is attributed to.
    pub fn function(&self, fault: &FaultFact) -> Option<FunctionId> {
        self.functions.innermost(fault.stack)
    }

    /// The name of that function.
    pub fn function_name(&self, fault: &FaultFact) -> Option<&str> {
        let function = self.functions.get(self.function(fault)?)?;
        Some(&function.name)
    }

    /// The phase of its process when the fault began.
    pub fn phase(&self, fault: &FaultFact) -> Option<Phase> {
        let thread = self.tables.thread(fault.thread)?;
        self.phases.at(self.tables, thread.process, fault.start)
    }
}

/// A file's path, or its inode and device if the path is unknown.
pub fn path_of(file: &MappedFile) -> String {
    if !file.path.is_empty() {
        return file.display_path();
    }
    let (id, deleted) = (file.id, if file.deleted { " (deleted)" } else { "" });
    format!("[inode {} of {}:{}]{deleted}", id.inode, id.major, id.minor)
}
