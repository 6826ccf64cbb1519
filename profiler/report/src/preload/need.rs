//! Finds the pages of files that a recording needed, and when each was needed first.
//!
//! A page is needed if it was faulted in, if it was mapped with another one, or if a system call read it.
//! Pages that faults read but were never touched are not needed.

use rustc_hash::FxHashMap;

use super::model::{Model, Services};
use base::addr::{PAGE, Timestamp};
use base::event::FileId;
use fact::account::knows_waste;
use fact::reduce::pages::{Pages, page_of};
use fact::request::{BioSource, Operation};
use fact::{
    BioFact, EventKind, FactSink, FaultFact, MappedFile, Mark, PagesBy, PagesReadFact, RequestFact, SampleFact, Tables,
};

/// Limit of pages with times, over all files: 16 GiB.
const MAX_PAGES: usize = 1 << 22;
/// Limit of pages considered per read: 64 MiB.
const MAX_RUN: u64 = 1 << 14;

/// When a page was first touched by a fault, and first read.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    touched: Option<Timestamp>,
    read: Option<Timestamp>,
}

/// Collects the page needs of a recording.
#[derive(Debug, Default)]
pub struct Needs {
    pages: Pages,
    times: FxHashMap<FileId, FxHashMap<u64, Times>>,
    kept: usize,
    left_out: u64,
    faults: u64,
    reads: u64,
    services: Services,
}

/// The needed pages of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNeed {
    /// Device and inode.
    pub id: FileId,
    /// Path; empty if unknown.
    pub path: String,
    /// Build ID; empty if there is none.
    pub build_id: Vec<u8>,
    /// The file was removed or replaced.
    pub deleted: bool,
    /// Page numbers and when each was needed first, by page number.
    pub pages: Vec<(u64, Timestamp)>,
    /// Number of pages that were read but not needed.
    pub wasted: u64,
}

impl Needs {
    /// Whether no file page was read or touched.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Whether anything was read, i.e. not everything was in memory before.
    pub fn was_cold(&self) -> bool {
        self.reads > 0
    }

    /// Number of pages dropped because of limits.
    pub fn left_out(&self) -> u64 {
        self.left_out.saturating_add(self.pages.left_out())
    }

    /// Model of the disk, from the recording's own requests.
    pub fn model(&self) -> Model {
        self.services.model()
    }

    /// The needed pages by file; files are sorted by first need.
    pub fn finish(&self, tables: &Tables) -> Vec<FileNeed> {
        let mut named: FxHashMap<FileId, &MappedFile> = FxHashMap::default();
        for file in &tables.files {
            let known = named.entry(file.id).or_insert(file);
            let is_better = (known.path.is_empty() || known.deleted) && !file.path.is_empty() && !file.deleted;
            if is_better {
                *known = file;
            }
        }
        // If faults are missing, any page may have been needed.
        let shows_waste = self.faults > 0 && knows_waste(tables);
        let of_file = |(id, times): (&FileId, &FxHashMap<u64, Times>)| {
            let sets = self.pages.by_id(*id);
            let mut wasted = 0;
            let mut pages: Vec<(u64, Timestamp)> = (times.iter())
                .filter_map(|(&page, times)| {
                    let is_used = sets.is_some_and(|sets| {
                        sets.hides_mapped || sets.mapped.contains(page) || sets.read_by_calls.contains(page)
                    });
                    let needed = is_used || !shows_waste;
                    let time = times.touched.filter(|_| needed).or(times.read);
                    wasted += u64::from(!needed && times.read.is_some());
                    time.filter(|_| needed).map(|time| (page, time))
                })
                .collect();
            pages.sort_unstable();
            let file = named.get(id);
            FileNeed {
                id: *id,
                path: file.map_or_else(String::new, |file| file.path.to_string()),
                build_id: file.map_or_else(Vec::new, |file| file.build_id.clone()),
                deleted: file.is_some_and(|file| file.deleted),
                pages,
                wasted,
            }
        };
        let mut files: Vec<FileNeed> = self.times.iter().map(of_file).collect();
        files.sort_by_cached_key(|file| (file.pages.iter().map(|(_, time)| *time).min(), file.id));
        files
    }

    fn note(&mut self, id: FileId, first: u64, count: u64, change: impl Fn(&mut Times)) {
        let looked_at = count.min(MAX_RUN);
        self.left_out = self.left_out.saturating_add(count - looked_at);
        for page in (0..looked_at).map_while(|at| first.checked_add(at)) {
            let file = self.times.entry(id).or_default();
            if self.kept >= MAX_PAGES && !file.contains_key(&page) {
                self.left_out = self.left_out.saturating_add(1);
                continue;
            }
            let before = file.len();
            change(file.entry(page).or_default());
            self.kept += file.len() - before;
        }
    }
}

impl FactSink for Needs {
    fn wants_stacks(&self, _: EventKind) -> bool {
        false
    }

    fn sample(&mut self, _: &Tables, _: &SampleFact) {}

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn fault(&mut self, tables: &Tables, fault: &FaultFact) {
        self.pages.fault(tables, fault);
        self.faults += 1;
        let Some(place) = fault.place.filter(|_| fault.failed.is_none()) else {
            return;
        };
        let Some(id) = tables.files.get(place.file.index()).map(|file| file.id) else {
            return;
        };
        let touch = |times: &mut Times| fault.start.keep_earliest(&mut times.touched);
        let page = page_of(place.offset);
        self.note(id, page, 1, touch);
        for run in fault.mapped.into_iter().flat_map(|mapped| mapped.runs(page)) {
            self.note(id, run.first, u64::from(run.count), touch);
        }
    }

    fn pages_read(&mut self, tables: &Tables, read: &PagesReadFact) {
        self.pages.read(tables, read);
        let is_read = read.by != PagesBy::Populate;
        self.reads += u64::from(is_read);
        if let Some(id) = tables.files.get(read.file.index()).map(|file| file.id) {
            self.note(id, read.pages.first, u64::from(read.pages.count), |times| {
                let kept = if is_read { &mut times.read } else { &mut times.touched };
                read.time.keep_earliest(kept);
            });
        }
    }

    fn request(&mut self, tables: &Tables, request: &RequestFact) {
        if request.operation != Operation::Read || request.error != 0 {
            return;
        }
        self.services.add(request);
        // `pages_read` reports pages added to the cache; this covers recordings without that event.
        let cached = |bio: &&BioFact| bio.source == BioSource::Cache && bio.thread.is_some();
        for bio in request.bios.iter().filter(cached) {
            let file = bio.file.and_then(|file| tables.files.get(file.index()));
            let (Some(file), Some(offset)) = (file, bio.offset) else {
                continue;
            };
            self.reads += 1;
            let end = offset.saturating_add(u64::from(bio.bytes)).div_ceil(PAGE);
            let first = offset / PAGE;
            self.note(file.id, first, end.saturating_sub(first), |times| {
                bio.time.keep_earliest(&mut times.read);
            });
        }
    }
}
