//! Collects the faults of a recording. They arrive sorted by end and are needed sorted by start, and names are known only after the last fault.

use std::sync::Arc;

use crate::dirty::{Dirtied, FirstCopy};
use crate::sorted::{Ordered, Row, Scratch, Sorted};
use base::addr::Timestamp;
use fact::fault::{FaultFact, MappedFileId};
use fact::reduce::finding_inputs::Gather;
use fact::reduce::packed::{Outliers, PackedFault};
use fact::reduce::pages::Pages;
use fact::{EventKind, FactSink, Mark, MarkKind, PagesReadFact, ProcessId, SampleFact, Tables, ThreadId};

/// Compact rows of faults, which can be read back sorted by start.
#[derive(Debug, Default)]
pub struct FaultRows {
    kept: Sorted<PackedFault>,
    long: Outliers,
    faults: u64,
}

impl Row for PackedFault {
    fn key(&self) -> u64 {
        self.start().0
    }
}

impl FaultRows {
    /// Empty rows that are kept in memory up to a limit, and beyond it in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            kept: Sorted::beyond_memory(scratch),
            ..Self::default()
        }
    }

    /// The number of faults that the rows represent.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.kept.len() as usize
    }

    /// There are no faults.
    pub fn is_empty(&self) -> bool {
        self.kept.len() == 0
    }

    /// Memory used by the rows, in bytes.
    pub fn bytes(&self) -> usize {
        self.kept.bytes() + self.long.bytes()
    }

    /// Adds a fault. False if the limit of four billion faults is reached.
    pub fn push(&mut self, fault: &FaultFact) -> bool {
        let has_room = !self.kept.is_full() && self.kept.push(PackedFault::new(fault, &mut self.long));
        if has_room {
            self.faults = self.faults.saturating_add(fault.count());
        }
        has_room
    }

    /// Unpacks a row to the fault that was added.
    pub(super) fn fault(&self, row: &PackedFault) -> FaultFact {
        row.fact(&self.long)
    }

    /// All faults, sorted by start.
    pub(super) fn ordered(&self) -> Ordered<'_, PackedFault> {
        self.kept.ordered()
    }
}

/// A moment of a program's run that a marker announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Milestone {
    /// The time of the marker.
    pub time: Timestamp,
    /// The thread with the marker.
    pub thread: ThreadId,
    /// The start of a new program; otherwise its first window.
    pub is_exec: bool,
}

/// The facts that a report of faults keeps.
#[derive(Debug, Default)]
pub struct Facts {
    /// The faults.
    pub rows: FaultRows,
    /// Starts of programs and first windows.
    pub milestones: Vec<Milestone>,
    /// The fate of the files' pages.
    pub pages: Pages,
    /// Copies of the files' pages, by process.
    pub dirtied: Dirtied,
    /// The data from which findings are derived.
    pub inputs: Gather,
    /// The source keeps no mappings, which leaves unknown which anonymous memory is `.bss`.
    pub is_without_mappings: bool,
}

impl Facts {
    /// An empty collection that keeps rows in memory up to a limit, and beyond it in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            rows: FaultRows::beyond_memory(scratch),
            ..Self::default()
        }
    }

    /// Adds a fault. Returns what it copied if its stack shows by which code, and its process did not have the page yet.
    pub(crate) fn take(&mut self, tables: &Tables, fault: &FaultFact) -> Option<FirstCopy> {
        self.pages.fault(tables, fault);
        self.inputs.fault(tables, fault);
        self.rows.push(fault);
        self.dirtied.fault(tables, fault)
    }
}

impl FactSink for Facts {
    fn wants_stacks(&self, kind: EventKind) -> bool {
        kind == EventKind::Fault
    }

    fn sample(&mut self, _: &Tables, _: &SampleFact) {}

    fn mark(&mut self, tables: &Tables, mark: &Mark) {
        self.inputs.mark(tables, mark);
        let is_exec = match &mark.kind {
            MarkKind::Exec { .. } => true,
            MarkKind::Program { text } if is_first_window(text) => false,
            MarkKind::Gecko(mark) if is_first_window(&mark.name) => false,
            _ => return,
        };
        self.milestones.push(Milestone {
            time: mark.start,
            thread: mark.thread,
            is_exec,
        });
    }

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        self.take(tables, fault);
    }

    fn bss(&mut self, tables: &Tables, fault: &FaultFact, file: MappedFileId) {
        self.dirtied.bss(tables, fault, file);
    }

    fn pages_read(&mut self, tables: &Tables, read: &PagesReadFact) {
        self.pages.read(tables, read);
    }

    fn process_ended(&mut self, _: &Tables, process: ProcessId) {
        self.dirtied.process_ended(process);
    }
}

/// Whether a program's marker announces its first window: `First paint`, `FirstContentfulPaint` or `first window`.
fn is_first_window(text: &str) -> bool {
    let mut letters = String::new();
    letters.extend(
        text.chars()
            .filter(char::is_ascii_alphanumeric)
            .take(24)
            .map(|c| c.to_ascii_lowercase()),
    );
    ["firstpaint", "firstcontentfulpaint", "firstwindow"]
        .iter()
        .any(|start| letters.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_windows_are_recognized_by_name() {
        for text in ["First paint", "FirstContentfulPaint — after 812ms", "first_window"] {
            assert!(is_first_window(text), "{text}");
        }
        assert!(!is_first_window("the first paint") && !is_first_window(""));
    }
}
