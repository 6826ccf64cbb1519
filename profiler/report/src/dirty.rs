//! Attributes a process's private copies of a library's pages to relocations, writes to its data, or zeroing of `.bss`.
//!
//! Pass in every fault in replay order, and read the result when names are known. docs/page-faults.md has the rules.

mod cause;

use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::Serialize;

use self::cause::{Cause, Chains, Why};
use base::addr::{PAGE, Timestamp};
use fact::fault::{FaultClass, FaultFact, FilePlace, MappedFileId, PageRange};
use fact::reduce::pages::PageSet;
use fact::{ProcessId, StackId, Tables, ThreadId};

pub use self::cause::ChainId;

/// Maximum number of distinct causes, by file; later ones count as writes to data.
const MAX_CAUSES: usize = 1 << 20;
/// Maximum number of files, of live processes, with page sets.
const MAX_FILES: usize = 1 << 18;

/// Pages, faults and time of one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cost {
    /// Distinct pages; a page counts once in each process.
    pub pages: u64,
    /// Faults: more than pages if a page was released or shared by a fork in between.
    pub faults: u64,
    /// Total known time of the faults.
    pub time: Duration,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.pages = self.pages.saturating_add(other.pages);
        self.faults = self.faults.saturating_add(other.faults);
        self.time = self.time.saturating_add(other.time);
    }
}

/// What a library's private pages cost the processes that map it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryCost {
    /// The file.
    pub file: MappedFileId,
    /// Copied by the dynamic linker's relocations, including lazy ones.
    pub relocations: Cost,
    /// Copied by other writes.
    pub data: Cost,
    /// Zeroed: `.bss`.
    pub bss: Cost,
}

/// A copy of a page that the process did not have yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstCopy {
    /// When the fault began.
    pub time: Timestamp,
    /// The thread.
    pub thread: ThreadId,
    /// Innermost user frame.
    pub stack: StackId,
    /// The byte that was written.
    pub place: FilePlace,
    /// Frames that determine the cause.
    pub chain: ChainId,
}

/// Collects faults that create private pages. Costs are by file and cause; only the set of a live process's pages is
/// by process.
#[derive(Debug, Default)]
pub struct Dirtied {
    costs: FxHashMap<(MappedFileId, Why), Cost>,
    chains: Chains,
    pages: FxHashMap<ProcessId, FxHashMap<MappedFileId, PageSet>>,
    /// Number of page sets.
    sets: usize,
}

impl Dirtied {
    /// Adds a fault. Returns the copy if the process did not have the page yet and a stack shows which code wrote.
    pub fn fault(&mut self, tables: &Tables, fault: &FaultFact) -> Option<FirstCopy> {
        let place = fault
            .place
            .filter(|_| fault.class == FaultClass::FileCow && !fault.remote)?;
        let own = fault.stack.map(|stack| cause::own_part(tables, stack));
        let (why, stack) = match own {
            None | Some(cause::Own::Cut) => (Why::Copied(None), None),
            Some(cause::Own::None) => (Why::Cleared, None),
            Some(cause::Own::Stack(stack)) => (Why::Copied(self.chains.of(tables, stack)), Some(stack)),
        };
        let is_new = self.note(tables, fault, place.file, why);
        let (Why::Copied(Some(chain)), Some(stack), true) = (why, stack, is_new) else {
            return None;
        };
        Some(FirstCopy {
            time: fault.start,
            thread: fault.thread,
            stack,
            place,
            chain,
        })
    }

    /// Adds a fault in the zeroed memory behind a library's data.
    pub fn bss(&mut self, tables: &Tables, fault: &FaultFact, file: MappedFileId) {
        if matches!(fault.class, FaultClass::Anonymous | FaultClass::Cow) {
            self.note(tables, fault, file, Why::Zeroed);
        }
    }

    /// Forgets the page sets of a process that has no more faults; its contribution to the sums stays.
    pub fn process_ended(&mut self, process: ProcessId) {
        self.sets -= self.pages.remove(&process).map_or(0, |sets| sets.len());
    }

    /// Records a page; returns true if the process did not have it yet.
    fn note(&mut self, tables: &Tables, fault: &FaultFact, file: MappedFileId, why: Why) -> bool {
        let Some(process) = tables.threads.get(fault.thread.index()).map(|thread| thread.process) else {
            return false;
        };
        let mut key = (file, why);
        if self.costs.len() >= MAX_CAUSES && !self.costs.contains_key(&key) {
            key.1 = Why::Copied(None);
        }
        let is_new = self.is_new(process, file, fault);
        self.costs.entry(key).or_default().add(Cost {
            pages: u64::from(is_new),
            faults: fault.count(),
            time: fault.total_time(),
        });
        is_new
    }

    fn is_new(&mut self, process: ProcessId, file: MappedFileId, fault: &FaultFact) -> bool {
        let sets = self.pages.entry(process).or_default();
        if self.sets >= MAX_FILES && !sets.contains_key(&file) {
            return false;
        }
        self.sets -= sets.len();
        // By address: a page of the file that two segments share is mapped, and copied, twice.
        let range = PageRange {
            first: fault.address.0 / PAGE,
            count: 1,
        };
        let new = sets.entry(file).or_default().insert_range(range);
        self.sets += sets.len();
        new > 0
    }

    /// Whether a relocation copied the page.
    pub fn is_relocation(&self, tables: &Tables, copy: &FirstCopy) -> bool {
        self.chains.cause(tables, copy.chain, copy.place.file) == Cause::Relocations
    }

    /// Costs by file, highest first.
    pub fn finish(&self, tables: &Tables) -> Vec<LibraryCost> {
        let mut libraries: FxHashMap<MappedFileId, LibraryCost> = FxHashMap::default();
        for ((file, why), cost) in &self.costs {
            let library = libraries.entry(*file).or_insert(LibraryCost {
                file: *file,
                relocations: Cost::default(),
                data: Cost::default(),
                bss: Cost::default(),
            });
            match self.chains.of_why(tables, *why, *file) {
                Cause::Relocations => library.relocations.add(*cost),
                Cause::Data => library.data.add(*cost),
                Cause::Bss => library.bss.add(*cost),
            }
        }
        let mut libraries: Vec<LibraryCost> = libraries.into_values().collect();
        let time = |library: &LibraryCost| library.relocations.time + library.data.time + library.bss.time;
        let pages = |library: &LibraryCost| library.relocations.pages + library.data.pages + library.bss.pages;
        libraries.sort_by(|a, b| (time(b), pages(b)).cmp(&(time(a), pages(a))).then(a.file.cmp(&b.file)));
        libraries
    }
}

#[cfg(test)]
mod tests;
