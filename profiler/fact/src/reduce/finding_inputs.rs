//! Input for findings: pages copied after a fork, pages read but unused, code scattered over its file, time waiting for
//! reads. Exact, however few faults a budget keeps: pass in each fact in replay order. docs/faults.md has the rules.

mod copies;

use std::time::Duration;

use rustc_hash::FxHashMap;

use self::copies::CopiesOf;
use crate::fault::{Access, FaultFact, MappedFileId};
use crate::prune::{Visit, visit_stack};
use crate::reduce::pages::{PageSet, Pages, page_of};
use crate::reduce::sums::summed;
use crate::{Mark, MarkKind, StackId, Tables, ThreadId};

pub use self::copies::{Copies, is_library};

/// Maximum number of copy writers and of (thread, file) pairs; later ones are ignored.
const MAX_KEYS: usize = 1 << 20;
/// Maximum number of files with examined code.
const MAX_FILES: usize = 1 << 16;
/// Maximum number of pages that a fault maps at once: the fault-around window.
const WINDOW: u64 = 16;

/// Pages of a file that were read with one stack and never touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wasted {
    /// The file.
    pub file: MappedFileId,
    /// Stack of the faults that read them; `None` if unknown.
    pub stack: Option<StackId>,
    /// Number of pages.
    pub pages: u64,
    /// All pages of the file that faults read.
    pub of: u64,
}

/// How the faulting code of a file is scattered over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The file.
    pub file: MappedFileId,
    /// Pages with an execute fault.
    pub pages: u64,
    /// Number of runs of adjacent pages.
    pub places: u64,
    /// Windows of 16 pages that contain any: about as many as `pages` where the kernel maps pages around a fault.
    pub windows: u64,
    /// Total time of the faults.
    pub time: Duration,
}

/// Time a thread waited for reads of a file that its page faults needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadWaits {
    /// The waiting thread.
    pub thread: ThreadId,
    /// The file; `None` for swapped memory.
    pub file: Option<MappedFileId>,
    /// Number of faults.
    pub faults: u64,
    /// Total wait time.
    pub time: Duration,
}

/// The collected input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindingInputs {
    /// Copies by process and frame.
    pub copies: Vec<Copies>,
    /// Unused reads by file and stack.
    pub wasted: Vec<Wasted>,
    /// Code by file.
    pub code: Vec<Code>,
    /// Waits for reads by thread and file.
    pub waits: Vec<ReadWaits>,
}

impl FindingInputs {
    /// Visits its stacks and frames.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        let frames = self.copies.iter_mut().filter_map(|one| one.frame.as_mut());
        frames.for_each(|frame| visit.frame(frame));
        self.wasted
            .iter_mut()
            .for_each(|one| visit_stack(&mut one.stack, visit));
    }
}

/// Collects the input.
#[derive(Debug, Default)]
pub struct Gather {
    copies: CopiesOf,
    code: FxHashMap<MappedFileId, (PageSet, Duration)>,
    waits: FxHashMap<(ThreadId, Option<MappedFileId>), Sum>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u64,
    time: Duration,
}

impl Sum {
    fn add(&mut self, time: Duration) {
        self.count = self.count.saturating_add(1);
        self.time = self.time.saturating_add(time);
    }
}

summed!(ReadWaits, by thread: ThreadId, file: Option<MappedFileId>; add faults, time);

impl Gather {
    /// Adds a mark: of an ended process, only the sums are kept.
    pub fn mark(&mut self, tables: &Tables, mark: &Mark) {
        if let (MarkKind::ProcessExit { .. }, Some(thread)) = (&mark.kind, tables.threads.get(mark.thread.index())) {
            self.copies.ended(tables, thread.process);
        }
    }

    /// Adds a fault.
    pub fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        if fault.failed.is_some() || fault.remote {
            return;
        }
        let file = fault.place.map(|place| place.file);
        let [_, disk, other_read, ..] = fault.waits.parts();
        let waited = disk.unwrap_or_default().saturating_add(other_read.unwrap_or_default());
        if !waited.is_zero() {
            let room = self.waits.len() < MAX_KEYS;
            let key = (fault.thread, file.filter(|_| room));
            self.waits.entry(key).or_default().add(waited);
        }
        if let (Some(place), Access::Execute) = (fault.place, fault.access)
            && (self.code.len() < MAX_FILES || self.code.contains_key(&place.file))
        {
            let (pages, time) = self.code.entry(place.file).or_default();
            pages.insert(page_of(place.offset));
            *time = time.saturating_add(fault.time());
        }
        self.copies.fault(tables, fault);
    }

    /// Visits the frames that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        self.copies.visit(visit);
    }

    /// Returns the result. `pages` must be those of the same faults.
    pub fn finish(&self, tables: &Tables, pages: &Pages) -> FindingInputs {
        let waits = self.waits.iter().map(|(&(thread, file), sum)| ReadWaits {
            thread,
            file,
            faults: sum.count,
            time: sum.time,
        });
        let code = self.code.iter().map(|(&file, (pages, time))| Code {
            file,
            pages: pages.len(),
            places: pages.ranges().count() as u64,
            windows: windows(pages),
            time: *time,
        });
        let mut inputs = FindingInputs {
            copies: self.copies.all(),
            wasted: wasted(tables, pages),
            code: code.collect(),
            waits: waits.collect(),
        };
        inputs.wasted.sort_unstable_by_key(|one| (one.file, one.stack));
        inputs.code.sort_unstable_by_key(|one| one.file);
        inputs.waits.sort_unstable_by_key(|one| (one.thread, one.file));
        inputs
    }
}

/// Windows that contain any of the pages.
fn windows(pages: &PageSet) -> u64 {
    let mut windows: Vec<u64> = pages.iter().map(|page| page / WINDOW).collect();
    windows.dedup();
    windows.len() as u64
}

/// Unused reads of each file, under its first name.
fn wasted(tables: &Tables, pages: &Pages) -> Vec<Wasted> {
    let mut names = FxHashMap::default();
    for (file, id) in tables.files.iter().zip((0..).map(MappedFileId)) {
        names.entry(file.id).or_insert(id);
    }
    let mut sums: FxHashMap<(MappedFileId, Option<StackId>), (u64, u64)> = FxHashMap::default();
    for (id, pages) in pages.files() {
        let Some(file) = names.get(&id) else { continue };
        // Calls may have used what faults read: reads of cached pages leave no trace.
        let wasted = pages.wasted().map_or(0, |wasted| wasted.len());
        if pages.read_later_by_calls >= wasted {
            continue;
        }
        for (read, wasted) in pages.wasted_reads() {
            let sum = sums.entry((*file, read.stack)).or_default();
            *sum = (sum.0.saturating_add(wasted), pages.read_by_faults.len());
        }
    }
    let sums = sums.into_iter();
    sums.map(|((file, stack), (pages, of))| Wasted { file, stack, pages, of })
        .collect()
}

#[cfg(test)]
mod tests;
