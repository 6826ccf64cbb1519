//! Which threads and files metrics treat as one, and what an event adds to them.

use rustc_hash::FxHashMap;

use super::Metric;
use crate::faults::view::path_of;
use fact::fault::{FaultClass, MappedFile, MappedFileId};
use fact::{ModuleId, Tables, ThreadId};

/// By thread: the first thread with the same names. A long recording can have a hundred thousand threads but few names.
pub fn namesakes(tables: &Tables) -> Vec<ThreadId> {
    let mut first: FxHashMap<(&str, &str), ThreadId> = FxHashMap::default();
    let threads = tables.threads.iter().zip((0..).map(ThreadId));
    let threads = threads.map(|(thread, id)| {
        let process = tables.processes.get(thread.process.index());
        let process = process.map_or("", |process| process.name.as_str());
        *first.entry((process, &thread.name)).or_insert(id)
    });
    threads.collect()
}

/// By file: the first file with the same path.
pub fn same_paths(tables: &Tables) -> Vec<MappedFileId> {
    let mut first: FxHashMap<String, MappedFileId> = FxHashMap::default();
    let files = tables.files.iter().zip((0..).map(MappedFileId));
    files
        .map(|(file, id)| *first.entry(path_of(file)).or_insert(id))
        .collect()
}

/// Metrics that faults of a kind add to; `time` is in ns.
pub fn values_of(class: FaultClass, major: bool, faults: u64, time: u64) -> [(Metric, u64); 4] {
    let copies = matches!(class, FaultClass::FileCow | FaultClass::Cow);
    [
        (Metric::Faults, faults),
        (Metric::MajorFaults, if major { faults } else { 0 }),
        (Metric::CowPages, if copies { faults } else { 0 }),
        (Metric::FaultWait, time),
    ]
}

/// The sections that contain some of these bytes of a file, and how many bytes each.
pub fn sections_in(file: &MappedFile, offset: u64, bytes: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = offset.saturating_add(bytes);
    let there = file.sections.iter().enumerate().map(move |(index, section)| {
        let to = section.offset.saturating_add(section.size).min(end);
        (index, to.saturating_sub(section.offset.max(offset)))
    });
    there.filter(|(_, bytes)| *bytes > 0)
}

/// Path of a module, or its name if it has no file.
pub fn module_path(tables: &Tables, id: ModuleId) -> String {
    let module = tables.modules.get(id.index()).filter(|module| !module.path.is_empty());
    module.map_or_else(|| tables.module_name(id).to_owned(), |module| module.path.clone())
}
