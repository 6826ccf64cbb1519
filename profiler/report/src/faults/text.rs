//! Prints the tables of page faults for a terminal with 80 columns.

use std::cmp::Reverse;
use std::io::{self, Write};

use super::account::AccountTotal;
use super::phase::Phase;
use super::report::FaultReport;
use super::tally::{FaultTally, TimeParts, WITH_CALLEES};
use super::text_pages;
use super::warn::warnings;
use crate::export::ns;
use crate::findings::Finding;
use crate::grid::{GroupRow, GroupTable, group_lines};
use crate::lookup::{headline, selected_of};
use crate::text::{count, duration, warning, wrapped, write_lines};
use base::plural::counted;
use fact::account::{FaultTier, is_exact_touch};
use fact::short_path;

/// Writes the report in ANSI styles; each table has at most `top` rows.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut dyn Write, report: &FaultReport, top: usize) -> io::Result<()> {
    let mut lines = head(report);
    if report.totals.faults > 0 {
        let tables = report.tables.0.iter();
        lines.extend(tables.flat_map(|table| table_lines(report, table, top)));
        lines.extend(text_pages::lines(report, top));
    }
    write_lines(out, &lines)
}

fn head(report: &FaultReport) -> Vec<String> {
    let recording = &report.recording;
    let totals = &report.totals;
    let seen = recording.end.since(recording.start);
    let tier = FaultTier::of(recording).map_or("an unknown tier", FaultTier::words);
    let numbers = format!(", {} recorded by {tier}", duration(ns(seen)));
    let mut lines = vec![headline(recording, &numbers)];
    let mut words = vec![
        selected_of(totals.faults, report.faults_in_file),
        format!("{} major", count(totals.major)),
        format!("{} waited for a read", count(totals.waited)),
        format!("{} failed", count(totals.failed)),
    ];
    if is_exact_touch(recording) {
        words.push("exact touch (no page was mapped around a fault)".to_owned());
    }
    lines.extend(wrapped("faults: ", &words, ", "));
    if totals.time_ns > 0 {
        lines.extend(wrapped("time:   ", &time(totals.time_ns, &report.time), " + "));
    }
    lines.extend(report.findings.iter().flat_map(Finding::lines));
    let folded = &report.folded;
    if folded.faults > 0 {
        let words = [
            format!("{} more", count(folded.faults)),
            format!("{} major", count(folded.major)),
            format!("{} in all", duration(folded.time_ns)),
            format!("{} read", counted(folded.pages_read, "page")),
            "aggregated in this profile, not in the tables".to_owned(),
        ];
        lines.extend(wrapped("folded: ", &words, ", "));
    }
    // A wrapper script runs other programs first; the last one is the program of interest.
    let last = report.phases.iter().rposition(|start| start.phase == Phase::Exec);
    let entered = report.phases.iter().skip(last.unwrap_or(0));
    let entered: Vec<String> = entered
        .map(|start| format!("{} at {}", start.phase.name(), duration(start.time_ns)))
        .collect();
    lines.extend(wrapped("phases: ", &entered, ", "));
    lines.extend(wrapped("account:", &account(&report.account), ", "));
    lines.extend(warnings(report).iter().flat_map(|text| warning(text)));
    lines
}

fn time(time: u64, parts: &TimeParts) -> Vec<String> {
    let mut words = Vec::new();
    for (name, part) in [
        ("disk", parts.disk_ns),
        ("another thread's read", parts.other_read_ns),
        ("address-space lock", parts.lock_ns),
        ("otherwise blocked", parts.blocked_ns),
        ("preempted", parts.preempted_ns),
    ] {
        words.extend(
            part.filter(|part| *part > 0)
                .map(|part| format!("{name} {}", duration(part))),
        );
    }
    words.push(format!("kernel work {}", duration(parts.rest_ns)));
    if let Some(first) = words.first_mut() {
        *first = format!("{} = {first}", duration(time));
    }
    if let Some(reclaim) = parts.reclaim_ns.filter(|reclaim| *reclaim > 0)
        && let Some(last) = words.last_mut()
    {
        *last = format!("{last}; {} of all in reclaim", duration(reclaim));
    }
    words
}

fn account(account: &AccountTotal) -> Vec<String> {
    let mut words = Vec::new();
    if account.threads > 0 {
        words.push(format!("kernel counted {}", count(account.kernel)));
        words.push(format!("recorded {}", count(account.seen)));
        words.push(format!("lost {}", count(account.lost)));
        if account.filtered > 0 {
            words.push(format!("not requested {}", count(account.filtered)));
        }
        let sign = if account.not_visible < 0 { "-" } else { "" };
        words.push(format!(
            "not visible to this tier: {sign}{}",
            count(account.not_visible.unsigned_abs())
        ));
    }
    if account.unwatched > 0 {
        let threads = count(account.unwatched);
        words.push(format!("threads that ended without a traced fault {threads}"));
    }
    words
}

/// A table with an empty line above; the tables of sections and functions are not the rows as they are.
fn table_lines(report: &FaultReport, table: &GroupTable<FaultTally>, top: usize) -> Vec<String> {
    let all = &report.totals;
    let mut lines = vec![String::new()];
    match table.key {
        "by_section" => return sections(report, &table.rows, top),
        _ if table.title.is_empty() => return Vec::new(),
        "by_function" => {
            let own: Vec<_> = table.rows.iter().filter(|row| row.tally.faults > 0).collect();
            lines.extend(group_lines(table.title, &own, (all, all), top));
            lines.push(String::new());
            lines.extend(with_callees(&table.rows, all, top));
        }
        _ => lines.extend(table.lines(all, top)),
    }
    lines
}

/// The sections of the file with the most time.
fn sections(report: &FaultReport, sections: &[GroupRow<FaultTally>], top: usize) -> Vec<String> {
    let mut files = report.tables.rows("by_file").iter();
    let Some(file) = files.find(|row| row.file().is_some()) else {
        return Vec::new();
    };
    let path = file.text("file").unwrap_or_default();
    let name = short_path(path);
    let rows: Vec<_> = sections.iter().filter(|row| row.file() == file.file()).collect();
    let mut lines = vec![String::new()];
    let sums = (&file.tally, &report.totals);
    lines.extend(group_lines(&format!("by section of {name}"), &rows, sums, top));
    lines
}

/// The functions with the most time, their callees' included. The rows overlap: they have no total.
fn with_callees(functions: &[GroupRow<FaultTally>], all: &FaultTally, top: usize) -> Vec<String> {
    let inclusive = |row: &GroupRow<FaultTally>| FaultTally {
        faults: row.number("inclusive_faults").unwrap_or_default(),
        time_ns: row.number("inclusive_time_ns").unwrap_or_default(),
        ..FaultTally::default()
    };
    let named = functions
        .iter()
        .filter_map(|row| Some((row.text("function")?, inclusive(row))));
    let mut rows: Vec<_> = named.collect();
    rows.sort_by_key(|(_, tally)| Reverse((tally.time_ns, tally.faults)));
    let mut lines = vec![WITH_CALLEES.head("by function, with callees")];
    lines.extend(
        rows.iter()
            .take(top)
            .map(|(name, tally)| WITH_CALLEES.row(name, tally, all)),
    );
    lines
}
