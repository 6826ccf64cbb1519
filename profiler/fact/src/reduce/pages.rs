//! What happened to each file's pages: read into the page cache, mapped, faulted in, read but unused.
//!
//! Pass in every fact in replay order. docs/page-faults.md explains each set.

mod file;
mod set;
mod spot;

use rustc_hash::FxHashMap;

pub use file::{FaultRead, FilePages};
pub use set::PageSet;
pub use spot::{Spot, innermost};

use crate::fault::{FaultFact, MappedFileId, PageRange, PagesBy, PagesReadFact};
use crate::prune::{Visit, visit_keys, visit_stack};
use crate::{FrameId, Tables, ThreadId};
use base::addr::{FileOffset, PAGE, Timestamp};
use base::event::FileId;

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
    /// What each thread has read since its last fault ended.
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
        self.change(id, |file| match read.by {
            PagesBy::Call => {
                file.read_by_calls.insert_range(read.pages);
                let is_later = file.first_fault.is_some_and(|first| first < read.time);
                let later = if is_later { u64::from(read.pages.count) } else { 0 };
                file.read_later_by_calls = file.read_later_by_calls.saturating_add(later);
            }
            PagesBy::Populate => file.populate(read.pages),
            PagesBy::Fault => {}
        });
        if read.by != PagesBy::Fault {
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
        self.mapped(tables, fault);
        for read in &own {
            self.settle(*read);
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

    /// Whether it is unknown which pages were mapped of a file that faults read.
    pub fn hides_mapped(&self) -> bool {
        let mut files = self.files.iter();
        files.any(|(_, file)| file.hides_mapped && !file.read_by_faults.is_empty())
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

    fn mapped(&mut self, tables: &Tables, fault: &FaultFact) {
        let Some(place) = fault.place.filter(|_| fault.failed.is_none()) else {
            return;
        };
        let Some(id) = tables.files.get(place.file.index()).map(|file| file.id) else {
            return;
        };
        let page = page_of(place.offset);
        // A page of the machine is several of those that are counted.
        let more = tables.recording.page() / PAGE;
        let own = PageRange {
            first: page - page % more,
            count: u32::try_from(more).unwrap_or(1),
        };
        let room = self.spots < MAX_SPOTS;
        let off = fault.read_around_off && (fault.pages_read > 0 || fault.waited());
        let is_new = self.change(id, |file| {
            match fault.mapped {
                Some(mapped) => mapped.runs(page).for_each(|run| {
                    file.mapped.insert_range(run);
                }),
                None => file.hides_mapped = true,
            }
            file.mapped.insert_range(own);
            file.faulted.insert_range(own);
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
        if file.are_mapped(pages) {
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

/// The number of the page that contains a byte.
pub fn page_of(offset: FileOffset) -> u64 {
    offset.0 / PAGE
}

#[cfg(test)]
mod tests;
