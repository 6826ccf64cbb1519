//! What a recording knows of memory: which pages of which file and section each process touched and copied, and in which function it first did so.
//!
//! A page that fault-around mapped beside a fault, and that no later fault was for, is not seen to be touched; `--exact-touch` sees each.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::touchers::{Names, Touchers, Touches};
use crate::addr::PAGE;
use crate::event::FileId;
use crate::fact::fault::{Access, FaultClass};
use crate::fact::pages::{PageSet, page_of};
use crate::fact::{MappedFile, MappedFileId, ProcessId};
use crate::report::faults::View;
use crate::report::faults::view::path_of;

/// Pages of a section that a process touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnownRow {
    /// The process; `None`: all of the recording together.
    pub pid: Option<u32>,
    /// Its name.
    pub process: Option<String>,
    /// Path of the file.
    pub file: String,
    /// `None`: in no section, or they are not known.
    pub section: Option<String>,
    /// Bytes of the pages that were faulted in; of several processes each one's.
    pub touched_bytes: u64,
    /// The same, a page that several processes touched once.
    pub distinct_bytes: u64,
    /// Of the touched: written to, so that the process has a copy or the file's page is dirty.
    pub written_bytes: u64,
    /// Who touched them first, the most pages first.
    pub functions: Touchers,
    /// The file.
    #[serde(skip)]
    pub id: FileId,
}

/// What a recording knows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Known {
    /// By file and section of all processes together, the most memory first.
    pub by_section: Vec<KnownRow>,
    /// The same of each process.
    pub by_process: Vec<KnownRow>,
}

/// Pages: by process and file, or by file.
type Sets<K> = FxHashMap<K, PageSet>;
/// A section of a file; of one process, or (`None`) of all.
type Key = (Option<ProcessId>, MappedFileId, Option<usize>);

/// Pages of a section.
#[derive(Default)]
struct Sums {
    touched: u64,
    distinct: u64,
    written: u64,
    by: Touches,
}

impl Known {
    /// Of the faults of a recording.
    pub fn new(view: &View<'_>) -> Self {
        let (own, distinct) = of_processes(view);
        let names = Arc::new(Names::of(&view.functions.all));
        let mut known = Self::default();
        let together = together(&own, &distinct);
        known.by_section = rows(view, together, &names);
        known.by_process = rows(view, own, &names);
        known
    }

    /// What is known of a section in the memory of a process; of a process that was not recorded, in that of all.
    pub fn of(&self, pid: u32, id: FileId, path: &str, section: Option<&str>) -> Option<&KnownRow> {
        let is_recorded = self.by_process.iter().any(|row| row.pid == Some(pid));
        let rows = if is_recorded {
            &self.by_process
        } else {
            &self.by_section
        };
        rows.iter().find(|row| {
            let same_file = (row.id.inode == id.inode && (row.id.major, row.id.minor) == (id.major, id.minor))
                || (!path.is_empty() && row.file == path);
            same_file && row.section.as_deref() == section && (!is_recorded || row.pid == Some(pid))
        })
    }
}

/// The pages of each process by section, and how many different ones all have.
fn of_processes(view: &View<'_>) -> (Vec<(Key, Sums)>, FxHashMap<Key, u64>) {
    let (mut touched, mut written) = (Sets::<(ProcessId, MappedFileId)>::default(), Sets::default());
    let mut seen = Sets::<MappedFileId>::default();
    let (mut own, mut distinct) = (FxHashMap::<Key, Sums>::default(), FxHashMap::<Key, u64>::default());
    for fault in view.faults().filter(|fault| fault.failed.is_none()) {
        let (Some(place), Some(thread)) = (fault.place, view.thread(&fault)) else {
            continue;
        };
        let page = page_of(place.offset);
        let section = view.file(place).and_then(|file| file.section_index(place.byte));
        let key = (thread.process, place.file);
        let sum = own.entry((Some(thread.process), place.file, section)).or_default();
        if touched.entry(key).or_default().insert(page) {
            sum.touched += 1;
            sum.distinct += 1;
            sum.by.count(view.function(&fault));
        }
        let is_distinct = seen.entry(place.file).or_default().insert(page);
        *distinct.entry((None, place.file, section)).or_default() += u64::from(is_distinct);
        let writes = match fault.class {
            FaultClass::FileCow | FaultClass::SharedDirty => true,
            FaultClass::Shmem => fault.access == Access::Write,
            _ => false,
        };
        let is_written = writes && written.entry(key).or_default().insert(page);
        sum.written += u64::from(is_written);
    }
    (own.into_iter().collect(), distinct)
}

/// The pages of all processes together, by section.
fn together(own: &[(Key, Sums)], distinct: &FxHashMap<Key, u64>) -> Vec<(Key, Sums)> {
    let mut sections: FxHashMap<Key, Vec<&Sums>> = FxHashMap::default();
    for ((_, file, section), sums) in own {
        sections.entry((None, *file, *section)).or_default().push(sums);
    }
    let sum = |(key, all): (Key, Vec<&Sums>)| {
        let sums = Sums {
            touched: all.iter().map(|sums| sums.touched).sum(),
            distinct: distinct.get(&key).copied().unwrap_or_default(),
            written: all.iter().map(|sums| sums.written).sum(),
            by: Touches::sum(all.into_iter().map(|sums| &sums.by)),
        };
        (key, sums)
    };
    sections.into_iter().map(sum).collect()
}

/// As rows, the most memory first.
fn rows(view: &View<'_>, mut sums: Vec<(Key, Sums)>, names: &Arc<Names>) -> Vec<KnownRow> {
    sums.sort_unstable_by_key(|(key, sums)| (Reverse((sums.touched, sums.written)), *key));
    sums.into_iter()
        .filter_map(|(key, sums)| row(view, key, sums, names))
        .collect()
}

fn row(view: &View<'_>, (process, file, section): Key, sums: Sums, names: &Arc<Names>) -> Option<KnownRow> {
    let file: &MappedFile = view.tables.files.get(file.index())?;
    let process = process.and_then(|process| view.tables.processes.get(process.index()));
    Some(KnownRow {
        pid: process.map(|process| process.pid),
        process: process.map(|process| process.name.clone()),
        file: path_of(file),
        section: section.and_then(|index| Some(file.sections.get(index)?.name.clone())),
        touched_bytes: sums.touched.saturating_mul(PAGE),
        distinct_bytes: sums.distinct.saturating_mul(PAGE),
        written_bytes: sums.written.saturating_mul(PAGE),
        functions: sums.by.finish(names),
        id: file.id,
    })
}
