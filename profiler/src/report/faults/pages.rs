//! What became of the pages of the files: of the whole recording, since whoever reads a page may read it for somebody else.

use serde::Serialize;

use super::report::FileRow;
use super::view::View;
use crate::fact::pages::{FilePages, Pages};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// The pages of a file, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PagesRow {
    /// Path as the process saw it; files of several names are told by each.
    pub file: String,
    /// Faulted in.
    pub faulted_bytes: u64,
    /// Mapped around a fault; whether they were touched nobody knows.
    pub around_bytes: u64,
    /// Mapped around a fault if they were in memory, which nobody saw.
    pub maybe_around_bytes: u64,
    /// Read by faults.
    pub read_by_faults_bytes: u64,
    /// Read by system calls.
    pub read_by_calls_bytes: u64,
    /// Read by faults, and neither faulted in nor mapped.
    pub wasted_bytes: u64,
}

/// Of these files, in their order.
pub fn rows(view: &View<'_>, pages: &Pages, files: &[FileRow]) -> Vec<PagesRow> {
    let row = |row: &FileRow| {
        let of = pages.of(view.tables, row.id?)?;
        Some(sums(row.file.clone()?, of))
    };
    files.iter().filter_map(row).collect()
}

fn sums(file: String, pages: &FilePages) -> PagesRow {
    let bytes = |pages: u64| pages.saturating_mul(PAGE);
    PagesRow {
        file,
        faulted_bytes: bytes(pages.faulted.len()),
        around_bytes: bytes(pages.around.len()),
        maybe_around_bytes: bytes(pages.maybe_around.len()),
        read_by_faults_bytes: bytes(pages.read_by_faults.len()),
        read_by_calls_bytes: bytes(pages.read_by_calls.len()),
        wasted_bytes: bytes(pages.wasted().len()),
    }
}
