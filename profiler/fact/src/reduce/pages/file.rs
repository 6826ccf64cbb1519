//! The pages of one file: which were read, mapped and faulted in, and which were wasted.

use rustc_hash::FxHashMap;

use super::{PageSet, Spot};
use crate::fault::{FaultFact, PageRange};
use crate::{FrameId, StackId, ThreadId};
use base::addr::Timestamp;

/// Pages that a fault read, with its thread and stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRead {
    /// When the fault began.
    pub time: Timestamp,
    /// The thread that read.
    pub thread: ThreadId,
    /// Its stack.
    pub stack: Option<StackId>,
    /// The pages.
    pub pages: PageRange,
}

/// The pages of one file.
#[derive(Debug, Clone, Default)]
pub struct FilePages {
    /// Read by faults of recorded threads.
    pub read_by_faults: PageSet,
    /// Read by system calls of recorded threads: `read`, `readahead`, `madvise`.
    pub read_by_calls: PageSet,
    /// Pages that system calls read after the first fault.
    pub read_later_by_calls: u64,
    /// When the first fault began.
    pub(super) first_fault: Option<Timestamp>,
    /// Faulted in.
    pub faulted: PageSet,
    /// Mapped: by a fault, which maps its own page and others, or by a system call.
    pub mapped: PageSet,
    /// Mapped by a system call before any fault mapped them, as far as known.
    pub(super) mapped_by_calls: PageSet,
    /// There is a fault of which only its own page is known.
    pub hides_mapped: bool,
    /// The reads behind `read_by_faults`, in order; only those with a page that was not touched right away.
    pub reads: Vec<FaultRead>,
    /// [`FilePages::spots`]; only few files have any.
    pub(super) read_around_off: Option<Box<FxHashMap<Option<FrameId>, Spot>>>,
}

impl FilePages {
    /// Pages that faults read and nothing mapped. `None`: it is unknown which pages faults mapped.
    pub fn wasted(&self) -> Option<PageSet> {
        self.not_mapped(&self.read_by_faults)
    }

    /// Those of these pages that were not mapped. `None`: it is unknown which pages they mapped.
    pub fn not_mapped(&self, pages: &PageSet) -> Option<PageSet> {
        (!self.hides_mapped).then(|| pages.without(&[&self.mapped]))
    }

    /// The pages that faults mapped in addition to those that faulted.
    pub fn around(&self) -> PageSet {
        self.mapped.without(&[&self.faulted, &self.mapped_by_calls])
    }

    /// The pages that system calls mapped ahead of any fault.
    pub fn populated(&self) -> PageSet {
        self.mapped_by_calls.without(&[&self.faulted])
    }

    /// Adds pages that a system call mapped.
    pub(super) fn populate(&mut self, pages: PageRange) {
        self.mapped_by_calls.insert_missing(pages, &self.mapped);
        self.mapped.insert_range(pages);
    }

    /// The wasted pages of each read. A page that was read several times counts for the first read.
    pub fn wasted_reads(&self) -> impl Iterator<Item = (FaultRead, u64)> {
        let mut left = self.wasted().unwrap_or_default();
        self.reads.iter().filter_map(move |read| {
            let pages = left.remove_range(read.pages);
            (pages > 0).then_some((*read, pages))
        })
    }

    /// Where the kernel had stopped reading around, by the innermost function.
    pub fn spots(&self) -> impl Iterator<Item = (&Option<FrameId>, &Spot)> {
        self.read_around_off.iter().flat_map(|spots| spots.iter())
    }

    /// Whether each of these pages was mapped: none can be wasted any more.
    pub(super) fn are_mapped(&self, pages: PageRange) -> bool {
        let mut all = pages.first..pages.first.saturating_add(u64::from(pages.count));
        all.all(|page| self.mapped.contains(page))
    }

    /// Notes a fault in a function where reading around was off. True: the function is new.
    pub(super) fn note_spot(&mut self, function: Option<FrameId>, fault: &FaultFact, page: u64, room: bool) -> bool {
        let is_known = self
            .read_around_off
            .as_ref()
            .is_some_and(|spots| spots.contains_key(&function));
        if !room && !is_known {
            return false;
        }
        let one = Spot::of(fault, page);
        let spots = self.read_around_off.get_or_insert_default().entry(function);
        spots.and_modify(|spot| spot.join(&one)).or_insert(one);
        !is_known
    }

    pub(super) fn bytes(&self) -> usize {
        let sets = [
            &self.read_by_faults,
            &self.read_by_calls,
            &self.mapped,
            &self.mapped_by_calls,
            &self.faulted,
        ];
        sets.into_iter().map(PageSet::bytes).sum::<usize>()
    }
}
