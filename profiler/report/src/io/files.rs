//! Avoidable reads: pages that were read and never used, and many small reads from one place.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::rows::{Facts, Part};
use super::view::{Place, View};
use crate::export::ns;
use base::addr::PAGE;
use fact::account::knows_waste;
use fact::fault::MappedFile;
use fact::request::Operation;
use fact::{MappedFileId, RequestFact};

/// A read of fewer bytes counts as tiny.
pub const TINY: u32 = 16 << 10;
/// Tiny reads from one place that are worth a row.
const MANY: u64 = 16;
/// Places that are distinguished; reads from further places are not counted.
const MAX_PLACES: usize = 1 << 20;

/// Bytes of a file that requests read for page faults, and how many of them were never mapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WasteRow {
    /// Path as the process sees it.
    pub file: String,
    /// Bytes that requests read for faults.
    pub read_for_faults_bytes: u64,
    /// Bytes read for faults that none of them mapped.
    pub wasted_bytes: u64,
}

/// Waste per file in the whole recording, most waste first. Files with unknown faults have no row.
pub fn waste<'f>(view: &View<'_>, files: impl Iterator<Item = (MappedFileId, &'f str)>) -> Vec<WasteRow> {
    let knows_waste = knows_waste(view.tables);
    let row = |(id, path): (MappedFileId, &str)| {
        let file: &MappedFile = view.tables.files.get(id.index())?;
        let facts: &Facts = view.facts;
        let read = facts.read_for_faults(file.id)?;
        let pages = facts
            .pages
            .of(view.tables, id)
            .filter(|pages| knows_waste && !pages.faulted.is_empty())?;
        let wasted = pages.not_mapped(read)?;
        Some(WasteRow {
            file: path.to_owned(),
            read_for_faults_bytes: read.len().saturating_mul(PAGE),
            wasted_bytes: wasted.len().saturating_mul(PAGE),
        })
    };
    let mut rows: Vec<WasteRow> = files.filter_map(row).collect();
    rows.sort_by(|a, b| (Reverse(a.wasted_bytes), &a.file).cmp(&(Reverse(b.wasted_bytes), &b.file)));
    rows
}

/// A place with many small reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TinyRow {
    /// The submitting function; `None` if unknown.
    pub function: Option<String>,
    /// The file read; `None` if there is no file or it is unknown.
    pub file: Option<String>,
    /// Number of reads.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Sum of the times from queueing to completion, in ns.
    pub time_ns: u64,
}

/// Collects tiny reads by place.
#[derive(Debug, Default)]
pub struct Tiny(FxHashMap<(Place, Option<MappedFileId>), (u64, u64, u64)>);

impl Tiny {
    /// Counts the request if it is a tiny read; `part` supplies its submitter and file.
    pub fn add(&mut self, view: &View<'_>, request: &RequestFact, part: &Part) {
        if request.operation != Operation::Read || request.bytes == 0 || request.bytes >= TINY {
            return;
        }
        let key = (view.place(part), part.file);
        if self.0.len() >= MAX_PLACES && !self.0.contains_key(&key) {
            return;
        }
        let (reads, bytes, time) = self.0.entry(key).or_default();
        *reads += 1;
        *bytes = bytes.saturating_add(u64::from(request.bytes));
        *time = time.saturating_add(ns(request.end.since(part.time)));
    }

    /// Places with at least `MANY` reads, longest time first.
    pub fn finish(self, view: &View<'_>) -> Vec<TinyRow> {
        let mut places: Vec<_> = self.0.into_iter().filter(|(_, (reads, ..))| *reads >= MANY).collect();
        places.sort_unstable_by_key(|(place, (reads, _, time))| (Reverse((*time, *reads)), *place));
        let row =
            |((place, file), (reads, bytes, time_ns)): ((Place, Option<MappedFileId>), (u64, u64, u64))| TinyRow {
                function: view.place_name(place),
                file: file.and_then(|file| view.path_of(file)),
                reads,
                bytes,
                time_ns,
            };
        places.into_iter().map(row).collect()
    }
}
