//! What happened to each file's pages: read into the page cache, mapped around a fault, faulted in, read but unused.
//!
//! Pass in every fact in replay order. docs/page-faults.md explains each set, and where it can only be a bound.

mod folios;
mod set;
mod spot;

use rustc_hash::FxHashMap;

pub use set::PageSet;
pub use spot::{Spot, innermost};

use self::folios::Folios;

use super::account::hides_around;
use super::fault::{FaultFact, MappedFileId, PageRange, PagesReadFact};
use super::prune::{Visit, visit_keys, visit_stack};
use super::{FrameId, StackId, Tables, ThreadId};
use crate::addr::{FileOffset, PAGE, Timestamp};
use crate::event::FileId;

/// Maximum number of runs of pages read by a fault in progress.
const MAX_PENDING: usize = 1 << 10;
/// Maximum number of functions in which the kernel had stopped reading around.
const MAX_SPOTS: usize = 1 << 16;
/// Maximum number of files.
const MAX_FILES: usize = 1 << 20;
/// Maximum size of all sets: a hundred times what a browser's start takes.
const MAX_BYTES: usize = 1 << 29;
/// Maximum number of reads with known thread and stack.
const MAX_READS: usize = 1 << 21;
/// Maximum number of pages that one fault maps around itself: those of a page table.
const MAX_AROUND: u32 = 512;

/// Pages of fault-around's window unless it was changed (`fault_around_bytes`).
const USUAL_AROUND: u64 = 16;

/// Pages that a fault read, and where its thread was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRead {
    /// When the fault began.
    pub time: Timestamp,
    /// Who read.
    pub thread: ThreadId,
    /// With which stack.
    pub stack: Option<StackId>,
    /// Which pages.
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
    first_fault: Option<Timestamp>,
    /// Mapped around a fault; they were in memory.
    pub around: PageSet,
    /// In the range around a fault; mapped if they were in memory, which nobody saw: no recorded thread read them.
    pub maybe_around: PageSet,
    /// Faulted in.
    pub faulted: PageSet,
    /// Who read what is in `read_by_faults`, in the order in which it came; only reads of which something was not touched right then.
    pub reads: Vec<FaultRead>,
    /// [`FilePages::spots`], of those few files that have any.
    read_around_off: Option<Box<FxHashMap<Option<FrameId>, Spot>>>,
    /// Folios of more than one page, of files that have any.
    folios: Option<Box<Folios>>,
}

impl FilePages {
    /// Pages that faults read and certainly did not map: a lower bound, since what [`FilePages::maybe_mapped`] has is left out.
    pub fn wasted(&self) -> PageSet {
        let mapped = [&self.faulted, &self.around, &self.maybe_mapped()];
        self.read_by_faults.without(&mapped)
    }

    /// The same by read: how many pages of each were wasted. A page that was read several times counts for the first one.
    pub fn wasted_reads(&self) -> impl Iterator<Item = (FaultRead, u64)> {
        let mut left = self.wasted();
        self.reads.iter().filter_map(move |read| {
            let pages = left.remove_range(read.pages);
            (pages > 0).then_some((*read, pages))
        })
    }

    /// Pages that may have been mapped without a fault for them, and whether they were is not known: in the range around a fault, or in the
    /// folio of a page that was mapped.
    pub fn maybe_mapped(&self) -> PageSet {
        let mut maybe = self.in_mapped_folios();
        maybe.union(&self.maybe_around);
        maybe.without(&[&self.faulted, &self.around])
    }

    /// All pages of the folios that hold a page that was, or may have been, mapped. Newer kernels map them at once (`mm/memory.c`: `finish_fault`;
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

    /// Each of these pages was faulted in or mapped: none can be wasted any more.
    fn are_touched(&self, pages: PageRange) -> bool {
        let mut all = pages.first..pages.first.saturating_add(u64::from(pages.count));
        all.all(|page| self.faulted.contains(page) || self.around.contains(page))
    }

    /// The range around a fault was mapped, as far as it was in memory; what `is_own` says came too late for it.
    fn map_around(&mut self, around: Option<PageRange>, is_own: impl Fn(u64) -> bool) {
        let Some(PageRange { first, count }) = around else {
            return;
        };
        let pages = first..first.saturating_add(u64::from(count.min(MAX_AROUND)));
        for page in pages.filter(|page| !is_own(*page)) {
            let was_read = self.read_by_faults.contains(page) || self.read_by_calls.contains(page);
            let set = if was_read {
                &mut self.around
            } else {
                &mut self.maybe_around
            };
            set.insert(page);
        }
    }

    /// The kernel may have mapped pages around a fault and did not report which: those of its usual window, wherever that begins.
    fn may_map_around(&mut self, page: u64, is_own: impl Fn(u64) -> bool) {
        let window = page.saturating_sub(USUAL_AROUND - 1)..page.saturating_add(USUAL_AROUND);
        for page in window.filter(|page| !is_own(*page)) {
            self.maybe_around.insert(page);
        }
    }

    /// True if it is a new one.
    fn note_spot(&mut self, function: Option<FrameId>, fault: &FaultFact, page: u64, room: bool) -> bool {
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

    fn bytes(&self) -> usize {
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

/// What a fault under way has read.
#[derive(Debug, Clone, Copy)]
struct Pending {
    time: Timestamp,
    file: FileId,
    pages: PageRange,
}

/// The pages of every file.
#[derive(Debug, Default)]
pub struct Pages {
    /// Index of each file in `files`.
    places: FxHashMap<FileId, usize>,
    /// In the order of first use. A long recording has hundreds of thousands: a hash table of these would be half
    /// empty, and exist twice while it grows.
    files: Vec<(FileId, FilePages)>,
    /// [`hides_around`] of the recording.
    hides_around: Option<bool>,
    /// What a thread has read since its last fault was over.
    pending: FxHashMap<ThreadId, Vec<Pending>>,
    spots: usize,
    reads: usize,
    bytes: usize,
    left_out: u64,
    reads_left_out: u64,
}

impl Pages {
    /// Adds pages that were read.
    pub fn read(&mut self, tables: &Tables, read: &PagesReadFact) {
        let Some(id) = tables.files.get(read.file.index()).map(|file| file.id) else {
            return;
        };
        // They were not in memory: what an earlier fault could have mapped around did not have them.
        self.change(id, |file| {
            file.maybe_around.remove_range(read.pages);
            if Folios::order(read) > 0 {
                file.folios.get_or_insert_default().add(read);
            }
            if !read.in_fault {
                file.read_by_calls.insert_range(read.pages);
                let is_later = file.first_fault.is_some_and(|first| first < read.time);
                let later = if is_later { u64::from(read.pages.count) } else { 0 };
                file.read_later_by_calls = file.read_later_by_calls.saturating_add(later);
            }
        });
        if !read.in_fault {
            return;
        }
        let pending = self.pending.entry(read.thread).or_default();
        if pending.len() == MAX_PENDING {
            let oldest = pending.remove(0);
            self.leave_out(oldest);
        }
        self.pending.entry(read.thread).or_default().push(Pending {
            time: read.time,
            file: id,
            pages: read.pages,
        });
    }

    /// Adds a fault.
    pub fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        let mut own = self.pending.remove(&fault.thread).unwrap_or_default();
        // Reads before its start belong to a fault that was not recorded.
        for read in own.extract_if(.., |read| read.time < fault.start) {
            self.leave_out(read);
        }
        // Only an attempt that is repeated finds what the first one read; tier 1 counts them, and where the tier does not, a
        // wait means that the first one gave up.
        let repeated = fault.retries.map_or_else(|| fault.waited(), |retries| retries > 0);
        if repeated {
            for read in &own {
                self.settle(*read);
            }
        }
        self.mapped(tables, fault, if repeated { &[] } else { &own });
        if !repeated {
            for read in &own {
                self.settle(*read);
            }
        }
        for read in &own {
            self.note_read(*read, fault);
        }
    }

    /// Visits the stacks and functions that it keeps.
    pub fn visit(&mut self, visit: &mut dyn Visit) {
        for (_, file) in &mut self.files {
            file.reads
                .iter_mut()
                .for_each(|read| visit_stack(&mut read.stack, visit));
            let each = |function: &mut Option<FrameId>, _: &mut Spot, visit: &mut dyn Visit| {
                if let Some(frame) = function {
                    visit.frame(frame);
                }
            };
            if let Some(spots) = &mut file.read_around_off {
                visit_keys(spots, visit, each, Spot::join);
            }
        }
    }

    /// The pages of a file; names of one device and inode share them. `None` if nothing happened to it.
    pub fn of(&self, tables: &Tables, file: MappedFileId) -> Option<&FilePages> {
        self.by_id(tables.files.get(file.index())?.id)
    }

    /// The same by device and inode.
    pub fn by_id(&self, file: FileId) -> Option<&FilePages> {
        self.files.get(*self.places.get(&file)?).map(|(_, pages)| pages)
    }

    /// Every file with any event.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &FilePages)> {
        self.files.iter().map(|(id, pages)| (*id, pages))
    }

    /// Number of facts left out: beyond the limit on files, or pages spread too widely.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of fault reads without known thread and stack: beyond two million, too many within one fault, or of an
    /// unrecorded fault.
    pub fn reads_left_out(&self) -> u64 {
        self.reads_left_out
    }

    fn mapped(&mut self, tables: &Tables, fault: &FaultFact, own: &[Pending]) {
        let Some(place) = fault.place.filter(|_| fault.failed.is_none()) else {
            return;
        };
        let Some(id) = tables.files.get(place.file.index()).map(|file| file.id) else {
            return;
        };
        let page = page_of(place.offset);
        let room = self.spots < MAX_SPOTS;
        let unseen_around = fault.around.is_none() && *self.hides_around.get_or_insert_with(|| hides_around(tables));
        let off = fault.read_around_off && (fault.pages_read > 0 || fault.waited());
        let is_new = self.change(id, |file| {
            let is_own = |page| own.iter().any(|read| read.file == id && holds(read.pages, page));
            if unseen_around {
                file.may_map_around(page, is_own);
            }
            file.map_around(fault.around, is_own);
            file.faulted.insert(page);
            fault.start.keep_earliest(&mut file.first_fault);
            let function = || fault.stack.and_then(|stack| innermost(tables, stack));
            off && file.note_spot(function(), fault, page, room)
        });
        self.spots += usize::from(is_new.unwrap_or(false));
    }

    /// Counts pages that a fault read as left out.
    fn leave_out(&mut self, read: Pending) {
        self.reads_left_out = self.reads_left_out.saturating_add(1);
        self.settle(read);
    }

    /// Marks pages that a fault read as in memory from now on.
    fn settle(&mut self, Pending { file, pages, .. }: Pending) {
        self.change(file, |file| {
            file.read_by_faults.insert_range(pages);
        });
    }

    /// Keeps thread and stack of a read, unless all of it was used at once, as for a new page of shared memory.
    fn note_read(&mut self, Pending { file, pages, .. }: Pending, fault: &FaultFact) {
        let place = self.places.get(&file).copied();
        let Some((_, file)) = place.and_then(|place| self.files.get_mut(place)) else {
            return;
        };
        if file.are_touched(pages) {
            return;
        }
        if self.reads >= MAX_READS {
            self.reads_left_out = self.reads_left_out.saturating_add(1);
            return;
        }
        file.reads.push(FaultRead {
            time: fault.start,
            thread: fault.thread,
            stack: fault.stack,
            pages,
        });
        self.reads += 1;
    }

    /// Changes a file's pages; `None` if capacity is exhausted.
    fn change<T>(&mut self, id: FileId, change: impl FnOnce(&mut FilePages) -> T) -> Option<T> {
        let known = self.places.contains_key(&id);
        if self.bytes > MAX_BYTES || (!known && self.files.len() >= MAX_FILES) {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        let place = *self.places.entry(id).or_insert(self.files.len());
        if place == self.files.len() {
            self.files.push((id, FilePages::default()));
        }
        let (_, file) = self.files.get_mut(place)?;
        let before = file.bytes();
        let changed = change(file);
        self.bytes = (self.bytes + file.bytes()).saturating_sub(before);
        Some(changed)
    }
}

fn holds(pages: PageRange, page: u64) -> bool {
    page.checked_sub(pages.first)
        .is_some_and(|place| place < u64::from(pages.count))
}

/// The number of the page that contains a byte.
pub fn page_of(offset: FileOffset) -> u64 {
    offset.0 / PAGE
}

#[cfg(test)]
mod tests;
