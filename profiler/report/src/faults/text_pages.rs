//! Prints the pages of files: their fate, and the cost of copying them.

use super::pages::{CopiesRow, PagesRow};
use super::report::FaultReport;
use super::text::NAME;
use crate::text::{bytes, columns, duration, path};

/// Both tables with at most `top` rows each; an empty table is left out.
pub fn lines(report: &FaultReport, top: usize) -> Vec<String> {
    let pages = report.pages.iter().take(top).map(|row| (&*row.file, became(row)));
    let heads = ["faulted", "around", "read", "by calls", "wasted"];
    let mut lines = table("pages, in the whole recording", heads, pages);
    let copies = report.copies.iter().take(top).map(|row| (&*row.file, cost(row)));
    let heads = ["relocated", "time", "data", "bss", "time"];
    let copies = table("copies of pages, in all processes", heads, copies);
    if !report.bss_is_whole && !copies.is_empty() {
        lines.extend(copies);
        lines.push("bss: only the part in the file's own pages; the event log has the rest".to_owned());
        return lines;
    }
    lines.extend(copies);
    lines
}

fn became(row: &PagesRow) -> [String; 5] {
    let around = row.around_bytes.saturating_add(row.maybe_around_bytes);
    let (read, called) = (row.read_by_faults_bytes, row.read_by_calls_bytes);
    let [faulted, around, read, called] = [row.faulted_bytes, around, read, called].map(size);
    [
        faulted,
        around,
        read,
        called,
        row.wasted_bytes.map_or_else(|| "?".to_owned(), size),
    ]
}

fn cost(row: &CopiesRow) -> [String; 5] {
    [
        size(row.relocated_bytes),
        duration(row.relocations_ns),
        size(row.data_bytes),
        size(row.bss_bytes),
        duration(row.data_ns.saturating_add(row.bss_ns)),
    ]
}

fn size(sum: u64) -> String {
    if sum == 0 { "0".to_owned() } else { bytes(sum) }
}

fn table<'r>(title: &str, heads: [&str; 5], rows: impl Iterator<Item = (&'r str, [String; 5])>) -> Vec<String> {
    let bold = anstyle::Style::new().bold();
    let line = |name: &str, [a, b, c, d, e]: [String; 5]| {
        let room = (NAME - 2).saturating_sub(columns(name));
        format!("{name}{:room$}{a:>10}{b:>9}{c:>9}{d:>9}{e:>9}", "")
    };
    let heads = format!("{bold}{}{bold:#}", line(title, heads.map(str::to_owned)));
    let mut lines = vec![String::new(), heads];
    lines.extend(rows.map(|(file, figures)| line(&path(file, NAME - 3), figures)));
    if lines.len() == 2 { Vec::new() } else { lines }
}
