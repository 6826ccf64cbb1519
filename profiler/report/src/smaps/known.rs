//! Page touches of a recording: the pages of each file and section that each process touched and copied, and the function of
//! the first touch.
//!
//! A touch of a page that fault-around mapped, without a later fault for it, is not recorded; `--exact-touch` records all.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::touchers::{Arena, Names, Part, Touchers, Touches};
use crate::faults::view::path_of;
use crate::faults::{Facts, View};
use crate::lookup::Lookup as _;
use base::addr::PAGE;
use base::event::FileId;
use fact::fault::{Access, FaultClass};
use fact::reduce::pages::{PageSet, page_of};
use fact::{EventKind, FactSink, FaultFact, MappedFileId, Mark, ProcessId, SampleFact, Tables};

/// Number of faults between two checks for finished processes.
const LOOK: usize = if cfg!(debug_assertions) { 16 } else { 1 << 16 };

/// Collects faults, without the data that only the tables of faults need.
#[derive(Debug)]
pub struct Faults(pub Facts);

impl FactSink for Faults {
    fn wants_stacks(&self, kind: EventKind) -> bool {
        kind == EventKind::Fault
    }

    fn sample(&mut self, _: &Tables, _: &SampleFact) {}

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn fault(&mut self, _: &Tables, fault: &FaultFact) {
        self.0.rows.push(fault);
    }
}

/// Memory of a section that a process touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnownRow {
    /// Process ID; `None`: all processes of the recording together.
    pub pid: Option<u32>,
    /// Process name.
    pub process: Option<String>,
    /// Path of the mapped file.
    pub file: String,
    /// Section name; `None`: outside of sections, or sections are unknown.
    pub section: Option<String>,
    /// Bytes of the pages that were faulted in, counted for each process.
    pub touched_bytes: u64,
    /// The same, but pages that several processes touched count once.
    pub distinct_bytes: u64,
    /// Touched bytes of pages that were written to: the process has a copy, or the file's page is dirty.
    pub written_bytes: u64,
    /// Functions that touched the pages first, most pages first.
    pub functions: Touchers,
    /// Device and inode of the file.
    #[serde(skip)]
    pub id: FileId,
}

/// Touched memory by section and process. There may be millions of rows, so each is built when it is printed.
#[derive(Debug, Default)]
pub struct Known {
    /// Rows by file and section over all processes, most memory first.
    together: Vec<Row>,
    /// Rows by process, file and section, most memory first.
    own: Vec<Row>,
    touchers: Arena,
    names: Arc<Names>,
    processes: FxHashMap<ProcessId, (u32, String)>,
    files: FxHashMap<MappedFileId, FileNames>,
}

/// Names of a file and its sections.
#[derive(Debug)]
struct FileNames {
    id: FileId,
    path: String,
    sections: Vec<String>,
}

/// A section of a file, for one process or (`None`) all.
type Key = (Option<ProcessId>, MappedFileId, Option<u32>);

/// A [`KnownRow`] without names; amounts are in pages.
#[derive(Debug, Clone, Copy)]
struct Row {
    key: Key,
    touched: u32,
    distinct: u32,
    written: u32,
    by: Part,
}

/// Accumulates the pages of a section.
#[derive(Default)]
struct Sums {
    touched: u32,
    written: u32,
    by: Touches,
}

/// Touched pages of a live process.
#[derive(Default)]
struct Lifetime {
    touched: FxHashMap<MappedFileId, PageSet>,
    written: FxHashMap<MappedFileId, PageSet>,
    sections: FxHashMap<(MappedFileId, Option<u32>), Sums>,
}

/// Accumulates touches, fault by fault.
#[derive(Default)]
struct Gathered {
    lives: FxHashMap<ProcessId, Lifetime>,
    seen: FxHashMap<MappedFileId, PageSet>,
    /// Number of distinct pages by section.
    distinct: FxHashMap<Key, u32>,
    own: Vec<Row>,
    touchers: Arena,
}

impl Known {
    /// Summarizes the faults of a recording.
    pub fn new(view: &View<'_>) -> Self {
        let mut gathered = Gathered::default();
        for (fault, number) in view.faults().zip(1..) {
            gathered.fault(view, &fault);
            if number % LOOK == 0 {
                gathered.forget(|process| {
                    let process = view.tables.processes.get(process.index());
                    process
                        .and_then(|process| process.end)
                        .is_some_and(|end| end < fault.start)
                });
            }
        }
        gathered.forget(|_| true);
        let together = gathered.together();
        let Gathered { own, touchers, .. } = gathered;
        let mut known = Self {
            together: most_first(together),
            own: most_first(own),
            touchers,
            names: Arc::new(Names::of(&view.functions.all)),
            ..Self::default()
        };
        known.name(view);
        known
    }

    /// Copies the names of the processes, files and sections that have rows.
    fn name(&mut self, view: &View<'_>) {
        for Row {
            key: (process, id, _), ..
        } in &self.own
        {
            if let Some(file) = view.tables.files.get(id.index()) {
                self.files.entry(*id).or_insert_with(|| FileNames {
                    id: file.id,
                    path: path_of(file),
                    sections: file.sections.iter().map(|section| section.name.clone()).collect(),
                });
            }
            if let Some((id, process)) = process.and_then(|id| Some((id, view.tables.processes.get(id.index())?))) {
                let names = self.processes.entry(id);
                names.or_insert_with(|| (process.pid, process.name.clone()));
            }
        }
    }

    /// Rows by file and section over all processes, most memory first.
    pub fn by_section(&self) -> impl ExactSizeIterator<Item = KnownRow> {
        self.together.iter().map(|row| self.row(row))
    }

    /// Rows by process, file and section, most memory first.
    pub fn by_process(&self) -> impl ExactSizeIterator<Item = KnownRow> {
        self.own.iter().map(|row| self.row(row))
    }

    /// The row of a section for a process, or for all processes if this one was not recorded.
    pub fn of(&self, pid: u32, id: FileId, path: &str, section: Option<&str>) -> Option<KnownRow> {
        let is_of = |row: &&Row| {
            let process = row.key.0.and_then(|process| self.processes.get(&process));
            process.is_some_and(|(known, _)| *known == pid)
        };
        let is_it = |row: &&Row| {
            let Some(file) = self.files.get(&row.key.1) else {
                return false;
            };
            let same_file = (file.id.inode == id.inode && (file.id.major, file.id.minor) == (id.major, id.minor))
                || (!path.is_empty() && file.path == path);
            same_file && file.section(row.key.2) == section
        };
        let mut own = self.own.iter().filter(is_of).peekable();
        let row = if own.peek().is_some() {
            own.find(is_it)
        } else {
            self.together.iter().find(is_it)
        };
        row.map(|row| self.row(row))
    }

    fn row(&self, row: &Row) -> KnownRow {
        let (process, file, section) = row.key;
        let process = process.and_then(|process| self.processes.get(&process));
        let file = self.files.get(&file);
        let bytes = |pages: u32| u64::from(pages).saturating_mul(PAGE);
        KnownRow {
            pid: process.map(|(pid, _)| *pid),
            process: process.map(|(_, name)| name.clone()),
            file: file.map(|file| file.path.clone()).unwrap_or_default(),
            section: file.and_then(|file| file.section(section)).map(str::to_owned),
            touched_bytes: bytes(row.touched),
            distinct_bytes: bytes(row.distinct),
            written_bytes: bytes(row.written),
            functions: self.touchers.of(row.by, &self.names),
            id: file.map(|file| file.id).unwrap_or_default(),
        }
    }
}

impl FileNames {
    fn section(&self, index: Option<u32>) -> Option<&str> {
        Some(self.sections.get(index? as usize)?)
    }
}

impl Serialize for Known {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut known = serializer.serialize_struct("Known", 2)?;
        known.serialize_field("by_section", &Each(|| self.by_section()))?;
        known.serialize_field("by_process", &Each(|| self.by_process()))?;
        known.end()
    }
}

/// Rows that are built while they are serialized.
struct Each<F>(F);

impl<I: Iterator<Item = KnownRow>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

impl Gathered {
    fn fault(&mut self, view: &View<'_>, fault: &FaultFact) {
        let (Some(place), Some(thread), None) = (fault.place, view.tables.thread(fault.thread), fault.failed) else {
            return;
        };
        let page = page_of(place.offset);
        let section = view.file(place).and_then(|file| file.section_index(place.byte));
        let section = section.and_then(|section| u32::try_from(section).ok());
        let life = self.lives.entry(thread.process).or_default();
        let sum = life.sections.entry((place.file, section)).or_default();
        if life.touched.entry(place.file).or_default().insert(page) {
            sum.touched = sum.touched.saturating_add(1);
            sum.by.count(view.function(fault));
        }
        let writes = match fault.class {
            FaultClass::FileCow | FaultClass::SharedDirty => true,
            FaultClass::Shmem => fault.access == Access::Write,
            _ => false,
        };
        if writes && life.written.entry(place.file).or_default().insert(page) {
            sum.written = sum.written.saturating_add(1);
        }
        if self.seen.entry(place.file).or_default().insert(page) {
            let distinct = self.distinct.entry((None, place.file, section)).or_default();
            *distinct = distinct.saturating_add(1);
        }
    }

    /// Reduces finished processes to their sums.
    fn forget(&mut self, has_ended: impl Fn(ProcessId) -> bool) {
        let ended = self.lives.extract_if(|process, _| has_ended(*process));
        for (process, life) in ended {
            for ((file, section), sums) in life.sections {
                self.own.push(Row {
                    key: (Some(process), file, section),
                    touched: sums.touched,
                    distinct: sums.touched,
                    written: sums.written,
                    by: self.touchers.push(sums.by),
                });
            }
        }
    }

    /// Sums over all processes, by section.
    fn together(&mut self) -> Vec<Row> {
        let mut sections: FxHashMap<Key, Vec<u32>> = FxHashMap::default();
        for ((_, file, section), number) in self.own.iter().map(|row| row.key).zip(0..) {
            sections.entry((None, file, section)).or_default().push(number);
        }
        let mut together = Vec::with_capacity(sections.len());
        for (key, numbers) in sections {
            let rows = || numbers.iter().filter_map(|number| self.own.get(*number as usize));
            let sum = |of: fn(&Row) -> u32| rows().map(of).fold(0, u32::saturating_add);
            let (touched, written) = (sum(|row| row.touched), sum(|row| row.written));
            let by = self.touchers.sum(rows().map(|row| row.by));
            together.push(Row {
                key,
                touched,
                distinct: self.distinct.get(&key).copied().unwrap_or_default(),
                written,
                by: self.touchers.push(by),
            });
        }
        together
    }
}

/// Sorts rows by memory, largest first.
fn most_first(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_unstable_by_key(|row| (Reverse((row.touched, row.written)), row.key));
    rows
}
