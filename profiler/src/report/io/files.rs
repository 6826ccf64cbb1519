//! Reads that could have been spared: pages read for nothing, and many small reads from one place.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::rows::{Facts, Part};
use super::view::{Place, View};
use crate::addr::PAGE;
use crate::fact::account::knows_waste;
use crate::fact::fault::MappedFile;
use crate::fact::request::Operation;
use crate::fact::{MappedFileId, RequestFact};
use crate::report::export::ns;

/// A read of fewer bytes is tiny.
pub const TINY: u32 = 16 << 10;
/// So many of them from one place are worth a row.
const MANY: u64 = 16;
/// Places that are told apart.
const MAX_PLACES: usize = 1 << 20;

/// What requests brought of a file for page faults, and what of it was never mapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WasteRow {
    /// Path as the process saw it.
    pub file: String,
    /// Bytes that requests brought for faults.
    pub read_for_faults_bytes: u64,
    /// Those of them that were neither faulted in nor possibly mapped with another page: a lower bound.
    pub wasted_bytes: u64,
}

/// Of these files, in the whole recording: the most waste first. A file whose faults are not known has no row.
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
        let wasted = read.without(&[&pages.faulted, &pages.around, &pages.maybe_mapped()]);
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

/// Many small reads from one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TinyRow {
    /// Who asked; `None`: not known.
    pub function: Option<String>,
    /// What for; `None`: no file, or not known.
    pub file: Option<String>,
    /// How many.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From being queued to completion, in ns.
    pub time_ns: u64,
}

/// Small reads by place, under construction.
#[derive(Debug, Default)]
pub struct Tiny(FxHashMap<(Place, Option<MappedFileId>), (u64, u64, u64)>);

impl Tiny {
    /// Counts a request, if it is one; `part` is whose it is.
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

    /// Those places that have many, the most time first.
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
