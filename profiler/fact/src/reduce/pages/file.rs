//! The pages of one file: which were read, mapped and faulted in, and which were wasted.

use rustc_hash::FxHashMap;

use super::folios::Folios;
use super::{PageSet, Spot, holds, pages_of};
use crate::fault::{FaultFact, PageRange, PagesReadFact};
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
    /// Mapped around a fault; they were in memory.
    pub around: PageSet,
    /// In the range around a fault; mapped if they were in memory, which is unknown: no recorded thread read them.
    pub maybe_around: PageSet,
    /// Faulted in.
    pub faulted: PageSet,
    /// The reads behind `read_by_faults`, in order; only those with a page that was not touched right away.
    pub reads: Vec<FaultRead>,
    /// [`FilePages::spots`]; only few files have any.
    pub(super) read_around_off: Option<Box<FxHashMap<Option<FrameId>, Spot>>>,
    /// Folios of more than one page, if the file has any.
    pub(super) folios: Option<Box<Folios>>,
}

impl FilePages {
    /// Pages that faults read and certainly did not map: a lower bound, since [`FilePages::maybe_mapped`] is left out.
    pub fn wasted(&self) -> PageSet {
        let mapped = [&self.faulted, &self.around, &self.maybe_mapped()];
        self.read_by_faults.without(&mapped)
    }

    /// The wasted pages of each read. A page that was read several times counts for the first read.
    pub fn wasted_reads(&self) -> impl Iterator<Item = (FaultRead, u64)> {
        let mut left = self.wasted();
        self.reads.iter().filter_map(move |read| {
            let pages = left.remove_range(read.pages);
            (pages > 0).then_some((*read, pages))
        })
    }

    /// Pages that may or may not have been mapped without a fault of their own: in the range around a fault, or in the folio of a page that
    /// was mapped.
    pub fn maybe_mapped(&self) -> PageSet {
        let mut maybe = self.in_mapped_folios();
        maybe.union(&self.maybe_around);
        maybe.without(&[&self.faulted, &self.around])
    }

    /// All pages of the folios with a page that was, or may have been, mapped. Newer kernels map them at once (`mm/memory.c`: `finish_fault`;
    /// `mm/filemap.c`: `filemap_map_pages`), and no tracepoint reports it.
    pub fn in_mapped_folios(&self) -> PageSet {
        let sets = [&self.faulted, &self.around, &self.maybe_around];
        let folios = self.folios.as_ref();
        folios.map_or_else(PageSet::default, |folios| folios.with_any_of(&sets))
    }

    /// Where the kernel had stopped reading around, by the innermost function.
    pub fn spots(&self) -> impl Iterator<Item = (&Option<FrameId>, &Spot)> {
        self.read_around_off.iter().flat_map(|spots| spots.iter())
    }

    /// Whether each of these pages was faulted in or mapped: none can be wasted any more.
    pub(super) fn are_touched(&self, pages: PageRange) -> bool {
        let mut all = pages.first..pages.first.saturating_add(u64::from(pages.count));
        all.all(|page| self.faulted.contains(page) || self.around.contains(page))
    }

    /// Notes that a fault mapped these pages around itself, as far as they were in memory; those of `is_own` arrived too late for it.
    pub(super) fn map_around(&mut self, around: PageRange, is_own: impl Fn(u64) -> bool) {
        for page in pages_of(around).filter(|page| !is_own(*page)) {
            let was_read = self.read_by_faults.contains(page) || self.read_by_calls.contains(page);
            let set = if was_read {
                &mut self.around
            } else {
                &mut self.maybe_around
            };
            set.insert(page);
        }
    }

    /// Notes that the kernel may have mapped these pages around a fault, without reporting which.
    pub(super) fn may_map_around(&mut self, window: PageRange, is_own: impl Fn(u64) -> bool) {
        for page in pages_of(window).filter(|page| !is_own(*page)) {
            self.maybe_around.insert(page);
        }
    }

    /// Notes that pages were not in memory before they were read: of the ranges around faults, only the `later` ones can have mapped them.
    pub(super) fn were_not_in_memory(&mut self, read: &PagesReadFact, later: &[PageRange]) {
        let kept: Vec<u64> = (later.iter().flat_map(|range| pages_of(*range)))
            .filter(|page| holds(read.pages, *page) && self.maybe_around.contains(*page))
            .collect();
        self.maybe_around.remove_range(read.pages);
        // A call's read is recorded once its thread does something else; a fault's read is complete when the fault ends.
        let set = if read.in_fault {
            &mut self.maybe_around
        } else {
            &mut self.around
        };
        for page in kept {
            set.insert(page);
        }
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
            &self.around,
            &self.maybe_around,
            &self.faulted,
        ];
        let folios = self.folios.as_ref().map_or(0, |folios| folios.bytes());
        folios + sets.into_iter().map(PageSet::bytes).sum::<usize>()
    }
}
