//! Prints the pages of files: their fate, and the cost of copying them.

use super::pages::{CopiesRow, PagesRow};
use super::report::FaultReport;
use crate::grid::{Column, Grid};
use crate::text::{bytes, duration, path};

const PAGES: Grid<PagesRow> = Grid {
    name: 24,
    gap: 0,
    columns: &[
        Column("faulted", 10, |row, _| size(row.faulted_bytes)),
        Column("around", 9, |row, _| size(row.around_bytes)),
        Column("populated", 10, |row, _| size(row.populated_bytes)),
        Column("read", 9, |row, _| size(row.read_by_faults_bytes)),
        Column("by calls", 9, |row, _| size(row.read_by_calls_bytes)),
        Column("wasted", 9, |row, _| {
            row.wasted_bytes.map_or_else(|| "?".to_owned(), size)
        }),
    ],
};

const COPIES: Grid<CopiesRow> = Grid {
    name: 33,
    gap: 0,
    columns: &[
        Column("relocated", 11, |row, _| size(row.relocated_bytes)),
        Column("time", 9, |row, _| duration(row.relocations_ns)),
        Column("data", 9, |row, _| size(row.data_bytes)),
        Column("bss", 9, |row, _| size(row.bss_bytes)),
        Column("time", 9, |row, _| duration(row.data_ns.saturating_add(row.bss_ns))),
    ],
};

/// Both tables with at most `top` rows each; an empty table is left out.
pub fn lines(report: &FaultReport, top: usize) -> Vec<String> {
    let name = |file: &str| path(file, PAGES.name);
    let pages = report.pages.iter().take(top).map(|row| (name(&row.file), row));
    let mut lines = PAGES.table("pages, in the whole recording", pages);
    let copies = report.copies.iter().take(top).map(|row| (name(&row.file), row));
    let copies = COPIES.table("copies of pages, in all processes", copies);
    let is_partial = !report.bss_is_whole && !copies.is_empty();
    lines.extend(copies);
    if is_partial {
        lines.push("bss: only the part in the file's own pages; the event log has the rest".to_owned());
    } else if report.bss_is_sampled && !report.copies.is_empty() {
        lines.push("bss: at least; its first writes are sampled (`--faults all` records each)".to_owned());
    }
    lines
}

fn size(sum: u64) -> String {
    if sum == 0 { "0".to_owned() } else { bytes(sum) }
}
