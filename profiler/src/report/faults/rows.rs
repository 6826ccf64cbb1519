//! Every fault of a recording: they arrive in the order in which they ended and are wanted by their start, and names are known only when the last
//! one has come.

use std::sync::Arc;

use crate::addr::Timestamp;
use crate::fact::clues::Gather;
use crate::fact::dirty::{Dirtied, FirstCopy};
use crate::fact::fault::{FaultFact, MappedFileId};
use crate::fact::packed::{LongTimes, PackedFault};
use crate::fact::pages::Pages;
use crate::fact::{FactSink, Mark, MarkKind, Noun, PagesReadFact, ProcessId, SampleFact, Tables, ThreadId};
use crate::report::sorted::{Ordered, Row, Scratch, Sorted};

/// Faults in the order in which they were handed in.
#[derive(Debug, Default)]
pub struct Rows {
    kept: Sorted<PackedFault>,
    long: LongTimes,
}

impl Row for PackedFault {
    fn key(&self) -> u64 {
        self.start().0
    }
}

impl Rows {
    /// In memory up to a limit, and beyond it there.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            kept: Sorted::beyond_memory(scratch),
            long: LongTimes::default(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len() as usize
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.kept.len() == 0
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.kept.bytes() + self.long.bytes()
    }

    /// Keeps a fault. False: there are four thousand million already.
    pub fn push(&mut self, fault: &FaultFact) -> bool {
        !self.kept.is_full() && self.kept.push(PackedFault::new(fault, &mut self.long))
    }

    /// The fault, as it was handed in.
    pub(super) fn fault(&self, row: &PackedFault) -> FaultFact {
        row.fact(&self.long)
    }

    /// All faults, by the time at which they began.
    pub(super) fn ordered(&self) -> Ordered<'_, PackedFault> {
        self.kept.ordered()
    }
}

/// A moment in the life of a program that a marker told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Milestone {
    /// When.
    pub time: Timestamp,
    /// Which thread told it.
    pub thread: ThreadId,
    /// A new program; else its first window.
    pub is_exec: bool,
}

/// What a report on faults keeps of a recording.
#[derive(Debug, Default)]
pub struct Facts {
    /// The faults.
    pub rows: Rows,
    /// Starts of programs and first windows.
    pub milestones: Vec<Milestone>,
    /// What became of the files' pages.
    pub pages: Pages,
    /// Who made copies of them.
    pub dirtied: Dirtied,
    /// What culprits are named by.
    pub clues: Gather,
    /// The source keeps no mappings: nobody knows which anonymous memory is `.bss`.
    pub is_without_mappings: bool,
}

impl Facts {
    /// Rows are in memory up to a limit, and beyond it there.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            rows: Rows::beyond_memory(scratch),
            ..Self::default()
        }
    }

    /// Takes a fault. Says what was copied, if that is told by whom, and its process did not have the page yet.
    pub(in crate::report) fn take(&mut self, tables: &Tables, fault: &FaultFact) -> Option<FirstCopy> {
        self.pages.fault(tables, fault);
        self.clues.fault(tables, fault);
        self.rows.push(fault);
        self.dirtied.fault(tables, fault)
    }
}

impl FactSink for Facts {
    fn wants_stacks(&self, noun: Noun) -> bool {
        noun == Noun::Fault
    }

    fn sample(&mut self, _: &Tables, _: &SampleFact) {}

    fn mark(&mut self, tables: &Tables, mark: &Mark) {
        self.clues.mark(tables, mark);
        let is_exec = match &mark.kind {
            MarkKind::Exec { .. } => true,
            MarkKind::Program { text } if is_first_window(text) => false,
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

    fn over(&mut self, _: &Tables, process: ProcessId) {
        self.dirtied.over(process);
    }
}

/// A program's marker says that something can be seen now: `First paint`, `FirstContentfulPaint`, `first window`.
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
    fn first_windows_are_known_by_their_names() {
        for text in ["First paint", "FirstContentfulPaint — after 812ms", "first_window"] {
            assert!(is_first_window(text), "{text}");
        }
        assert!(!is_first_window("the first paint") && !is_first_window(""));
    }
}
