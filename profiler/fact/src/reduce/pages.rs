//! What happened to each file's pages: read into the page cache, mapped around a fault, faulted in, read but unused.
//!
//! Pass in every fact in replay order. docs/page-faults.md explains each set, and where it can only be a bound.

mod attempts;
mod file;
mod folios;
mod latest;
mod set;
mod spot;

use std::ops::Range;

use rustc_hash::FxHashMap;

pub use file::{FaultRead, FilePages};
pub use set::PageSet;
pub use spot::{Spot, innermost};

use self::attempts::Attempts;
use self::folios::Folios;
use self::latest::Latest;

use crate::account::hides_around;
use crate::fault::{FaultFact, MappedFileId, PageRange, PagesReadFact};
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
/// Maximum number of pages that one fault maps around itself: those of a page table.
const MAX_AROUND: u32 = 512;
/// Pages of fault-around's window unless it was changed (`fault_around_bytes`).
const USUAL_AROUND: u32 = 16;

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
    /// Ranges around the latest faults.
    latest: Latest,
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
        // They were not in memory before: a fault that ended by then did not map them.
        let later = self.latest.since(read.time, id);
        self.change(id, |file| {
            if let Some(later) = later {
                file.were_not_in_memory(read, &later);
            }
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
        let attempts = Attempts::of(fault);
        if attempts == Attempts::Several {
            for read in &own {
                self.settle(*read);
            }
        }
        self.mapped(tables, fault, if attempts == Attempts::One { &own } else { &[] });
        if attempts != Attempts::Several {
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
        let hides_around = *self.hides_around.get_or_insert_with(|| hides_around(tables));
        let unseen = (fault.around.is_none() && hides_around).then(|| usual_around(page));
        let around = fault.around.map(|around| PageRange {
            count: around.count.min(MAX_AROUND),
            ..around
        });
        if let Some(range) = around.or(unseen) {
            self.latest.add(fault.end(), id, range);
        }
        let off = fault.read_around_off && (fault.pages_read > 0 || fault.waited());
        let is_new = self.change(id, |file| {
            let is_own = |page| own.iter().any(|read| read.file == id && holds(read.pages, page));
            if let Some(window) = unseen {
                file.may_map_around(window, is_own);
            }
            if let Some(around) = around {
                file.map_around(around, is_own);
            }
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

/// The usual window around a fault, wherever it begins.
fn usual_around(page: u64) -> PageRange {
    let first = page.saturating_sub(u64::from(USUAL_AROUND) - 1);
    PageRange {
        first,
        count: u32::try_from(page - first).unwrap_or(0) + USUAL_AROUND,
    }
}

fn pages_of(PageRange { first, count }: PageRange) -> Range<u64> {
    first..first.saturating_add(u64::from(count))
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
