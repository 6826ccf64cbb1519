//! Prints the tables of block requests for a terminal with 80 columns.

use std::io::{self, Write};

use super::devices::{Counts, DeviceRow};
use super::files::{TinyRow, WasteRow};
use super::report::IoReport;
use super::text_devices;
use super::warn::warnings;
use crate::export::ns;
use crate::grid::{Column, Grid};
use crate::lookup::{headline, selected_of};
use crate::text::{columns, count, duration, fit, path, percent, size, warning, wrapped, write_lines};
use base::plural::counted;
use fact::short_path;

const WASTE: Grid<WasteRow> = Grid {
    name: 35,
    gap: 0,
    columns: &[
        Column("read", 28, |row, _| size(row.read_for_faults_bytes)),
        Column("wasted", 9, |row, _| size(row.wasted_bytes)),
        Column("share", 8, |row, _| {
            percent(row.wasted_bytes, row.read_for_faults_bytes)
        }),
    ],
};

const TINY: Grid<TinyRow> = Grid {
    name: 35,
    gap: 0,
    columns: &[
        Column("reads", 19, |row, _| count(row.reads)),
        Column("read", 9, |row, _| size(row.bytes)),
        Column("mean", 9, |row, _| size(row.bytes.checked_div(row.reads).unwrap_or(0))),
        Column("time", 8, |row, _| duration(row.time_ns)),
    ],
};

/// Writes the whole report with ANSI styles; tables have at most `top` rows.
///
/// # Errors
/// Errors of the output.
pub fn write(out: &mut dyn Write, report: &IoReport, top: usize) -> io::Result<()> {
    let mut lines = head(report);
    if !report.by_device.is_empty() {
        lines.extend(text_devices::lines(report, top));
    }
    if report.requests > 0 {
        for table in report.tables.0.iter().filter(|table| !table.title.is_empty()) {
            lines.push(String::new());
            lines.extend(table.lines(&report.totals, top));
        }
        let wasted = report.waste.iter().filter(|row| row.wasted_bytes > 0).take(top);
        let wasted = wasted.map(|row| (path(&row.file, WASTE.name), row));
        lines.extend(WASTE.table("read for faults and never mapped", wasted));
        let tiny = report.tiny_reads.iter().take(top);
        lines.extend(TINY.table("many reads under 16 KiB", tiny.map(|row| (place(row), row))));
    }
    write_lines(out, &lines)
}

fn head(report: &IoReport) -> Vec<String> {
    let recording = &report.recording;
    let numbers = format!(", {} recorded", duration(ns(recording.end.since(recording.start))));
    let mut lines = vec![headline(recording, &numbers)];
    let of = if report.is_everything {
        report.requests
    } else {
        report.requests_in_file
    };
    let totals = &report.totals;
    let words = [
        selected_of(report.requests, of),
        format!("{} read", size(totals.read_bytes)),
        format!("{} written", size(totals.written_bytes)),
    ];
    lines.extend(wrapped("requests:", &words, ", "));
    if report.waited_ns > 0 {
        let words = [format!(
            "{} by threads for these requests, as far as known",
            duration(report.waited_ns)
        )];
        lines.extend(wrapped("waited:  ", &words, ""));
    }
    if report.is_everything {
        let words = account(&report.by_device).join("; ");
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        lines.extend(wrapped("account: ", &words, " "));
    }
    lines.extend(warnings(report).iter().flat_map(|text| warning(text)));
    lines
}

/// Compares the recorded requests of each device with the device's own counters.
fn account(devices: &[DeviceRow]) -> Vec<String> {
    let numbers = |counts: &Counts| {
        format!(
            "{} {}, {} {}",
            counted(counts.reads, "read"),
            size(counts.read_bytes),
            counted(counts.writes, "write"),
            size(counts.written_bytes)
        )
    };
    let of = |row: &DeviceRow| {
        let device = fit(&row.device, 20);
        let counted = row.counted?;
        Some(if row.agrees() == Some(true) {
            format!("{device} matches its own counters")
        } else {
            format!(
                "{device} counted {}; recorded {}",
                numbers(&counted),
                numbers(&row.done)
            )
        })
    };
    devices.iter().filter_map(of).collect()
}

/// The function of tiny reads, with their file.
fn place(row: &TinyRow) -> String {
    let function = row.function.as_deref().unwrap_or("(unknown)");
    let Some(file) = row.file.as_deref() else {
        return function.to_owned();
    };
    let of = format!(" of {}", fit(short_path(file), TINY.name / 2));
    fit(function, TINY.name.saturating_sub(columns(&of))) + &of
}
