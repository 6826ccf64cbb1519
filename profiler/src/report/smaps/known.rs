//! What a recording knows of memory: which pages of which file and section each process touched and copied, and in which function it first did so.
//!
//! A page that fault-around mapped beside a fault, and that no later fault was for, is not seen to be touched; `--exact-touch` sees each.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::addr::PAGE;
use crate::event::FileId;
use crate::fact::fault::{Access, FaultClass};
use crate::fact::pages::{PageSet, page_of};
use crate::fact::{MappedFile, MappedFileId, ProcessId};
use crate::report::faults::View;
use crate::report::faults::view::path_of;
use crate::report::functions::FunctionId;

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
    pub functions: Vec<Toucher>,
    /// The file.
    #[serde(skip)]
    pub id: FileId,
}

/// A function that touched pages before others did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Toucher {
    /// Its name; `None`: no function of the program.
    pub function: Option<String>,
    /// Bytes of the pages.
    pub bytes: u64,
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
type Key = (Option<ProcessId>, MappedFileId, Option<usize>);

#[derive(Default)]
struct Sums {
    touched: u64,
    distinct: u64,
    written: u64,
    functions: FxHashMap<Option<FunctionId>, u64>,
}

impl Known {
    /// Of the faults of a recording.
    pub fn new(view: &View<'_>) -> Self {
        let (mut touched, mut written) = (Sets::<(ProcessId, MappedFileId)>::default(), Sets::default());
        let mut distinct = Sets::<MappedFileId>::default();
        let mut sums: FxHashMap<Key, Sums> = FxHashMap::default();
        for fault in view.faults().filter(|fault| fault.failed.is_none()) {
            let (Some(place), Some(thread)) = (fault.place, view.thread(&fault)) else {
                continue;
            };
            let page = page_of(place.offset);
            let section = view.file(place).and_then(|file| file.section_index(place.byte));
            let key = (thread.process, place.file);
            let is_first = touched.entry(key).or_default().insert(page);
            let is_distinct = distinct.entry(place.file).or_default().insert(page);
            let writes = match fault.class {
                FaultClass::FileCow | FaultClass::SharedDirty => true,
                FaultClass::Shmem => fault.access == Access::Write,
                _ => false,
            };
            let is_written = writes && written.entry(key).or_default().insert(page);
            let function = view.function(&fault);
            for process in [None, Some(thread.process)] {
                let sum = sums.entry((process, place.file, section)).or_default();
                sum.written += u64::from(is_written);
                sum.distinct += u64::from(if process.is_some() { is_first } else { is_distinct });
                if is_first {
                    sum.touched += 1;
                    *sum.functions.entry(function).or_default() += 1;
                }
            }
        }
        let mut sums: Vec<(Key, Sums)> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|(key, sums)| (std::cmp::Reverse((sums.touched, sums.written)), *key));
        let mut known = Self::default();
        for (key, sums) in sums {
            let rows = if key.0.is_some() {
                &mut known.by_process
            } else {
                &mut known.by_section
            };
            rows.extend(row(view, key, sums));
        }
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

fn row(view: &View<'_>, (process, file, section): Key, sums: Sums) -> Option<KnownRow> {
    let file: &MappedFile = view.tables.files.get(file.index())?;
    let process = process.and_then(|process| view.tables.processes.get(process.index()));
    let mut functions: Vec<(Option<FunctionId>, u64)> = sums.functions.into_iter().collect();
    functions.sort_unstable_by_key(|(function, pages)| (std::cmp::Reverse(*pages), *function));
    let toucher = |(function, pages): (Option<FunctionId>, u64)| Toucher {
        function: function.and_then(|id| Some(view.functions.get(id)?.name.clone())),
        bytes: pages.saturating_mul(PAGE),
    };
    Some(KnownRow {
        pid: process.map(|process| process.pid),
        process: process.map(|process| process.name.clone()),
        file: path_of(file),
        section: section.and_then(|index| Some(file.sections.get(index)?.name.clone())),
        touched_bytes: sums.touched.saturating_mul(PAGE),
        distinct_bytes: sums.distinct.saturating_mul(PAGE),
        written_bytes: sums.written.saturating_mul(PAGE),
        functions: functions.into_iter().map(toucher).collect(),
        id: file.id,
    })
}
