//! The fate of the pages of files. Covers the whole recording, because a process may read a page that another one uses.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::select::Selector;
use super::tally::FaultTally;
use super::view::{View, path_of};
use crate::dirty::Dirtied;
use crate::export::ns;
use crate::grid::GroupRow;
use base::addr::PAGE;
use fact::MappedFileId;
use fact::account::knows_waste;
use fact::reduce::pages::FilePages;

/// Sums over the pages of a file, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PagesRow {
    /// Path as the process saw it; a file with several names has a row for each.
    pub file: String,
    /// Pages that were faulted in.
    pub faulted_bytes: u64,
    /// Pages that faults mapped in addition to their own, as far as known. Whether they were touched is unknown.
    pub around_bytes: u64,
    /// Pages that system calls mapped ahead of any fault, as far as known: `MAP_POPULATE`, `mlock`, `MADV_POPULATE_READ`.
    pub populated_bytes: u64,
    /// Pages read by faults.
    pub read_by_faults_bytes: u64,
    /// Pages read by system calls.
    pub read_by_calls_bytes: u64,
    /// Pages read by faults that were not mapped. `None` if the recording lacks faults, or it is unknown what they mapped.
    pub wasted_bytes: Option<u64>,
}

/// The cost of copying a file's pages, summed over all processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopiesRow {
    /// Path as the process saw it.
    pub file: String,
    /// Pages copied by relocations; a page counts once per process.
    pub relocated_bytes: u64,
    /// Time of these faults.
    pub relocations_ns: u64,
    /// Pages copied by other writes.
    pub data_bytes: u64,
    /// Time of these faults.
    pub data_ns: u64,
    /// Zeroed pages of `.bss`.
    pub bss_bytes: u64,
    /// Time of these faults.
    pub bss_ns: u64,
}

impl CopiesRow {
    /// The total time, in ns.
    pub fn time_ns(&self) -> u64 {
        let some = self.relocations_ns.saturating_add(self.data_ns);
        some.saturating_add(self.bss_ns)
    }
}

/// The copies of these files' pages in all processes, most expensive first.
pub fn copies(view: &View<'_>, dirtied: &Dirtied, files: &[GroupRow<FaultTally>]) -> Vec<CopiesRow> {
    let mut rows: Vec<(u32, CopiesRow)> = Vec::new();
    let mut places = FxHashMap::default();
    let wanted: FxHashMap<_, _> = files
        .iter()
        .filter_map(|row| Some((row.file()?, row.text("file")?.to_owned())))
        .collect();
    for cost in dirtied.finish(view.tables) {
        let Some(file) = wanted.get(&cost.file) else { continue };
        let place = *places.entry(cost.file).or_insert_with(|| {
            let row = CopiesRow {
                file: file.clone(),
                relocated_bytes: 0,
                relocations_ns: 0,
                data_bytes: 0,
                data_ns: 0,
                bss_bytes: 0,
                bss_ns: 0,
            };
            rows.push((cost.file.0, row));
            rows.len() - 1
        });
        let Some((_, row)) = rows.get_mut(place) else { continue };
        for (bytes, time, cost) in [
            (&mut row.relocated_bytes, &mut row.relocations_ns, cost.relocations),
            (&mut row.data_bytes, &mut row.data_ns, cost.data),
            (&mut row.bss_bytes, &mut row.bss_ns, cost.bss),
        ] {
            *bytes = bytes.saturating_add(cost.pages.saturating_mul(PAGE));
            *time = time.saturating_add(ns(cost.time));
        }
    }
    rows.sort_by_key(|(id, row)| (std::cmp::Reverse((row.time_ns(), row.relocated_bytes)), *id));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The pages of these files, in the same order; then those of files that no fault was in, but system calls mapped.
pub fn rows(view: &View<'_>, selector: &Selector, files: &[GroupRow<FaultTally>]) -> Vec<PagesRow> {
    let (pages, knows_waste) = (view.pages(), knows_waste(view.tables));
    let row = |row: &GroupRow<FaultTally>| {
        let of = pages.of(view.tables, row.file()?)?;
        Some(sums(row.text("file")?.to_owned(), of, knows_waste))
    };
    let mut rows: Vec<PagesRow> = files.iter().filter_map(row).collect();
    let shown: FxHashSet<_> = files.iter().filter_map(GroupRow::file).collect();
    let more = view.tables.files.iter().zip((0..).map(MappedFileId));
    let more = more.filter(|(_, id)| !shown.contains(id) && selector.takes_file(*id));
    let more = more.filter_map(|(file, id)| {
        let of = pages.of(view.tables, id)?;
        (of.faulted.is_empty() && !of.populated().is_empty()).then(|| sums(path_of(file), of, knows_waste))
    });
    let first = rows.len();
    rows.extend(more);
    rows[first..].sort_by_key(|row| std::cmp::Reverse(row.populated_bytes));
    rows
}

fn sums(file: String, pages: &FilePages, knows_waste: bool) -> PagesRow {
    let bytes = |pages: u64| pages.saturating_mul(PAGE);
    PagesRow {
        file,
        faulted_bytes: bytes(pages.faulted.len()),
        around_bytes: bytes(pages.around().len()),
        populated_bytes: bytes(pages.populated().len()),
        read_by_faults_bytes: bytes(pages.read_by_faults.len()),
        read_by_calls_bytes: bytes(pages.read_by_calls.len()),
        wasted_bytes: pages.wasted().filter(|_| knows_waste).map(|wasted| bytes(wasted.len())),
    }
}
