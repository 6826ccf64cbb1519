//! Places where the kernel had stopped reading around faults: the program's functions that faulted there, by file.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::tally::FaultTally;
use super::view::View;
use crate::export::ns;
use crate::grid::GroupRow;
use base::addr::PAGE;
use fact::fault::MappedFileId;
use fact::reduce::pages::Spot;

/// A function's faults in a file of which the kernel read only single pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpotRow {
    /// Path as the process saw it.
    pub file: Option<String>,
    /// The innermost function; `None` if unknown.
    pub function: Option<String>,
    /// Offset of the first page in the file, in bytes.
    pub first_offset: u64,
    /// Offset of the last page in the file, in bytes.
    pub last_offset: u64,
    /// Faults that read or waited.
    pub faults: u64,
    /// Faults that waited for a disk.
    pub waited: u64,
    /// Pages that the faults read.
    pub pages_read: u64,
    /// Time of the faults, in ns.
    pub time_ns: u64,
    /// Index of the file in the tables.
    #[serde(skip)]
    pub id: Option<MappedFileId>,
}

/// The rows of these files in the same order; within a file, functions with the most time first.
pub fn rows(view: &View<'_>, files: &[GroupRow<FaultTally>]) -> Vec<SpotRow> {
    files.iter().flat_map(|file| of_file(view, file)).collect()
}

fn of_file(view: &View<'_>, file: &GroupRow<FaultTally>) -> Vec<SpotRow> {
    let Some(pages) = file.file().and_then(|id| view.pages().of(view.tables, id)) else {
        return Vec::new();
    };
    // A function may have many frames.
    let mut functions: FxHashMap<Option<String>, Spot> = FxHashMap::default();
    for (frame, spot) in pages.spots() {
        let name = frame.map(|frame| view.tables.function_name(frame).into_owned());
        functions
            .entry(name)
            .and_modify(|sum| merge(sum, spot))
            .or_insert(*spot);
    }
    let mut rows: Vec<SpotRow> = functions
        .into_iter()
        .map(|(function, spot)| SpotRow {
            file: file.text("file").map(str::to_owned),
            function,
            first_offset: spot.pages.0.saturating_mul(PAGE),
            last_offset: spot.pages.1.saturating_mul(PAGE),
            faults: spot.faults,
            waited: spot.waited,
            pages_read: spot.pages_read,
            time_ns: ns(spot.time),
            id: file.file(),
        })
        .collect();
    rows.sort_unstable_by(|a, b| {
        let key = |row: &SpotRow| (Reverse(row.time_ns), Reverse(row.faults));
        key(a).cmp(&key(b)).then_with(|| a.function.cmp(&b.function))
    });
    rows
}

fn merge(sum: &mut Spot, more: &Spot) {
    sum.pages = (sum.pages.0.min(more.pages.0), sum.pages.1.max(more.pages.1));
    sum.faults = sum.faults.saturating_add(more.faults);
    sum.waited = sum.waited.saturating_add(more.waited);
    sum.pages_read = sum.pages_read.saturating_add(more.pages_read);
    sum.time = sum.time.saturating_add(more.time);
}
