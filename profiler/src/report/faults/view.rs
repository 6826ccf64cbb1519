//! Faults with the names of everything that they refer to.

use std::sync::Arc;

use super::phase::{Phase, Phases};
use super::rows::Facts;
use crate::fact::clues::Clues;
use crate::fact::dirty::Dirtied;
use crate::fact::fault::{FilePlace, MappedFile};
use crate::fact::packed::PackedFault;
use crate::fact::pages::Pages;
use crate::fact::{FaultFact, Location, Process, StackId, Tables, Thread, upwards};
use crate::report::export::ns;
use crate::report::functions::{FunctionId, Functions};
use crate::report::sorted::Ordered;

/// All faults of a recording, by the time at which they began.
#[derive(Debug)]
pub struct View<'a> {
    /// What they refer to.
    pub tables: &'a Tables,
    /// Functions of their stacks.
    pub functions: Arc<Functions>,
    /// Phases of the processes.
    pub phases: Phases,
    facts: &'a Facts,
    order: Ordered<'a, PackedFault>,
}

impl<'a> View<'a> {
    /// Names and orders the facts of a recording.
    pub fn new(tables: &'a Tables, facts: &'a Facts) -> Self {
        Self::sharing(tables, facts, &Arc::new(Functions::new(tables)))
    }

    /// The same with the functions of these tables, which another view has too.
    pub fn sharing(tables: &'a Tables, facts: &'a Facts, functions: &Arc<Functions>) -> Self {
        let order = facts.rows.ordered();
        let phases = Phases::new(tables, functions, facts, &order);
        Self {
            tables,
            functions: Arc::clone(functions),
            phases,
            facts,
            order,
        }
    }

    /// What became of the files' pages.
    pub fn pages(&self) -> &'a Pages {
        &self.facts.pages
    }

    /// The source can tell which anonymous memory is `.bss`.
    pub fn knows_bss(&self) -> bool {
        !self.facts.is_without_mappings
    }

    /// Who made copies of the files' pages.
    pub fn dirtied(&self) -> &'a Dirtied {
        &self.facts.dirtied
    }

    /// What culprits are named by.
    pub fn clues(&self) -> Clues {
        self.facts.clues.finish(self.tables, &self.facts.pages)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, by the time at which they began.
    pub fn faults(&self) -> impl Iterator<Item = FaultFact> {
        self.order.iter().map(|row| self.facts.rows.fault(&row))
    }

    /// Since the recording's start, in ns.
    pub fn time_ns(&self, fault: &FaultFact) -> u64 {
        ns(fault.start.since(self.tables.recording.start))
    }

    /// Whose it was.
    pub fn thread(&self, fault: &FaultFact) -> Option<&'a Thread> {
        self.tables.threads.get(fault.thread.index())
    }

    /// The process that it belongs to.
    pub fn process(&self, fault: &FaultFact) -> Option<&'a Process> {
        self.tables.processes.get(self.thread(fault)?.process.index())
    }

    /// The file whose page it brought.
    pub fn file(&self, place: FilePlace) -> Option<&'a MappedFile> {
        self.tables.files.get(place.file.index())
    }

    /// The section that holds the byte.
    pub fn section(&self, fault: &FaultFact) -> Option<&'a str> {
        let place = fault.place?;
        self.file(place)?.section(place.byte)
    }

    /// The symbol that holds the byte.
    pub fn symbol(&self, fault: &FaultFact) -> Option<&'a str> {
        let place = fault.place?;
        self.file(place)?.symbol(place.byte)
    }

    /// The function that it belongs to.
    pub fn function(&self, fault: &FaultFact) -> Option<FunctionId> {
        self.functions.innermost(fault.stack)
    }

    /// The name of that function.
    pub fn function_name(&self, fault: &FaultFact) -> Option<&str> {
        let function = self.functions.get(self.function(fault)?)?;
        Some(&function.name)
    }

    /// The phase of its process when it began.
    pub fn phase(&self, fault: &FaultFact) -> Option<Phase> {
        let thread = self.thread(fault)?;
        self.phases.at(self.tables, thread.process, fault.start)
    }

    /// The stack reaches its thread's first frame; `None`: there is no stack.
    pub fn is_complete(&self, stack: Option<StackId>) -> Option<bool> {
        let outermost = upwards(self.tables, stack?).last()?;
        let frame = self.tables.frames.get(outermost.index())?;
        Some(!matches!(frame.location, Location::Truncated(_)))
    }
}

/// How a file is called, also where its path is unknown.
pub fn path_of(file: &MappedFile) -> String {
    if !file.path.is_empty() {
        return file.display_path();
    }
    let (id, deleted) = (file.id, if file.deleted { " (deleted)" } else { "" });
    format!("[inode {} of {}:{}]{deleted}", id.inode, id.major, id.minor)
}
