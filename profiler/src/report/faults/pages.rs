//! What became of the pages of the files: of the whole recording, since whoever reads a page may read it for somebody else.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::report::FileRow;
use super::view::View;
use crate::addr::PAGE;
use crate::fact::account::knows_waste;
use crate::fact::dirty::Dirtied;
use crate::fact::pages::{FilePages, Pages};
use crate::report::export::ns;

/// The pages of a file, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PagesRow {
    /// Path as the process saw it; files of several names are told by each.
    pub file: String,
    /// Faulted in.
    pub faulted_bytes: u64,
    /// In the range that was mapped around a fault, and read before; not those that were faulted in, too. Whether they were touched is not known.
    pub around_bytes: u64,
    /// Mapped without a fault if they were in memory, or if the kernel mapped the whole folio of a page that was: neither is known.
    pub maybe_around_bytes: u64,
    /// Read by faults.
    pub read_by_faults_bytes: u64,
    /// Read by system calls.
    pub read_by_calls_bytes: u64,
    /// Read by faults, and neither faulted in nor possibly mapped: a lower bound. `None`: faults are missing from the recording.
    pub wasted_bytes: Option<u64>,
}

/// What a library's pages cost the processes that made copies of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopiesRow {
    /// Path as the process saw it.
    pub file: String,
    /// Copied by relocations; a page counts once in each process.
    pub relocated_bytes: u64,
    /// The time that it took.
    pub relocations_ns: u64,
    /// Copied by other writes.
    pub data_bytes: u64,
    /// The time that it took.
    pub data_ns: u64,
    /// Zeroed: `.bss`.
    pub bss_bytes: u64,
    /// The time that it took.
    pub bss_ns: u64,
}

impl CopiesRow {
    /// All the time, in ns.
    pub fn time_ns(&self) -> u64 {
        let some = self.relocations_ns.saturating_add(self.data_ns);
        some.saturating_add(self.bss_ns)
    }
}

/// Of these files, over all processes, the dearest first.
pub fn copies(view: &View<'_>, dirtied: &Dirtied, files: &[FileRow]) -> Vec<CopiesRow> {
    let mut rows: Vec<(u32, CopiesRow)> = Vec::new();
    let mut places = FxHashMap::default();
    let wanted: FxHashMap<_, _> = files
        .iter()
        .filter_map(|row| Some((row.id?, row.file.clone()?)))
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

/// Of these files, in their order.
pub fn rows(view: &View<'_>, pages: &Pages, files: &[FileRow]) -> Vec<PagesRow> {
    let knows_waste = knows_waste(view.tables);
    let row = |row: &FileRow| {
        let of = pages.of(view.tables, row.id?)?;
        Some(sums(row.file.clone()?, of, knows_waste))
    };
    files.iter().filter_map(row).collect()
}

fn sums(file: String, pages: &FilePages, knows_waste: bool) -> PagesRow {
    let bytes = |pages: u64| pages.saturating_mul(PAGE);
    PagesRow {
        file,
        faulted_bytes: bytes(pages.faulted.len()),
        around_bytes: bytes(pages.around.without(&[&pages.faulted]).len()),
        maybe_around_bytes: bytes(pages.maybe_mapped().len()),
        read_by_faults_bytes: bytes(pages.read_by_faults.len()),
        read_by_calls_bytes: bytes(pages.read_by_calls.len()),
        wasted_bytes: knows_waste.then(|| bytes(pages.wasted().len())),
    }
}
