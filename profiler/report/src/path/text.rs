//! Prints the tables of a path for a terminal with 80 columns.

use std::io::{self, Write};

use super::chain::Link;
use super::report::PathReport;
use super::tally::PathTally;
use crate::grid::{Column, Grid, GroupTable};
use crate::lookup::headline;
use crate::text::{duration, fit, warning, wrapped, write_lines};
use base::plural::{self, counted};
use profiler_common::Loss;

const CHAIN: Grid<Link> = Grid {
    name: 48,
    gap: 0,
    columns: &[
        Column("at", 10, |link, _| duration(link.start_ns)),
        Column("time", 9, |link, _| duration(link.time_ns)),
        Column("via", 13, |link, _| link.via.unwrap_or_default().to_owned()),
    ],
};

/// Writes the report with ANSI styles; tables and the chain have at most `top` rows.
///
/// # Errors
/// Errors of the output.
pub fn write(out: &mut dyn Write, report: &PathReport, top: usize) -> io::Result<()> {
    let mut lines = head(report);
    // A table whose only row is what is unknown says nothing.
    let is_known = |table: &&GroupTable<PathTally>| match (table.key, &table.rows[..]) {
        ("by_file", [only]) => only.text("file").is_some(),
        ("by_device", [only]) => only.text("device").is_some(),
        _ => true,
    };
    for table in report.tables.0.iter().filter(is_known) {
        lines.push(String::new());
        lines.extend(table.lines(&report.totals, top));
    }
    let mut chain: Vec<&Link> = report.chain.iter().collect();
    chain.sort_by_key(|link| std::cmp::Reverse(link.time_ns));
    chain.truncate(top);
    chain.sort_by_key(|link| link.start_ns);
    let rows = chain.into_iter().map(|link| (link.part.clone(), link));
    lines.extend(CHAIN.table("the longest links of the chain", rows));
    write_lines(out, &lines)
}

fn head(report: &PathReport) -> Vec<String> {
    let thread = &report.thread;
    let mut lines = vec![headline(&report.recording, "")];
    lines.push(format!(
        "path:     {} of {} ({}), from {} to {}",
        duration(report.totals.time_ns),
        fit(&thread.thread, 20),
        thread.tid,
        duration(report.start_ns),
        duration(report.end_ns)
    ));
    let reasons = report.tables.rows("by_reason").iter();
    let parts = reasons.map(|row| {
        let name = row.text("reason").unwrap_or_default();
        format!("{} {name}", duration(row.tally.time_ns))
    });
    lines.extend(wrapped("         ", &parts.collect::<Vec<_>>(), " + "));
    if thread.matching > 1 {
        let text = format!(
            "{} match; this is the one that lived longest: name another one by its id",
            counted(thread.matching as u64, "thread")
        );
        lines.extend(warning(&text));
    }
    if let Some(missed) = report.recording.lost(Loss::SwitchMissed) {
        let text = format!(
            "{}: the path takes those threads for running meanwhile",
            plural::loss(Loss::SwitchMissed.name(), missed)
        );
        lines.extend(warning(&text));
    }
    lines
}
