//! Prints the tables of block requests for a terminal with 80 columns.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::devices::{Counts, DeviceRow};
use super::files::{TinyRow, WasteRow};
use super::report::{FunctionRow, IoReport, ProcessRow};
use super::tally::Tally;
use super::text_devices;
use super::warn::warnings;
use crate::export::ns;
use crate::text::{WIDTH, bytes, columns, count, duration, fit, path, percent, warning, wrapped};
use base::plural::counted;

/// Width of the numbers after a name.
const FIGURES: usize = 44;
const NAME: usize = WIDTH - FIGURES;

/// Writes the whole report with ANSI styles; tables have at most `top` rows.
///
/// # Errors
/// Errors of the output.
pub fn write(out: &mut impl Write, report: &IoReport, top: usize) -> io::Result<()> {
    let mut lines = head(report);
    if !report.by_device.is_empty() {
        lines.extend(text_devices::lines(report, top));
    }
    if report.requests > 0 {
        for (title, rows) in tables(report) {
            lines.extend(table(title, &rows, &report.totals, top));
        }
        lines.extend(wasted(&report.waste, top));
        lines.extend(tiny(&report.tiny_reads, top));
    }
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn head(report: &IoReport) -> Vec<String> {
    let recording = &report.recording;
    let command = recording.command.join(" ");
    let command = if command.is_empty() { &recording.scope } else { &command };
    let figures = format!(", {}", duration(ns(recording.end.since(recording.start))));
    let mut lines = vec![fit(command, WIDTH.saturating_sub(columns(&figures))) + &figures];
    let of = if report.is_everything || report.requests == report.requests_in_file {
        String::new()
    } else {
        format!(" of {}", count(report.requests_in_file))
    };
    let totals = &report.totals;
    let words = [
        format!("{}{of}", count(report.requests)),
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
    let figures = |counts: &Counts| {
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
            format!("{device} counted {}; seen {}", figures(&counted), figures(&row.done))
        })
    };
    devices.iter().filter_map(of).collect()
}

type Rows = Vec<(String, Tally)>;

fn tables(report: &IoReport) -> [(&'static str, Rows); 3] {
    let files = report
        .by_file
        .iter()
        .map(|row| (path(&row.file, NAME - 1), row.tally))
        .collect();
    let functions = report
        .by_function
        .iter()
        .map(|row| (function(row), row.tally))
        .collect();
    let processes = report.by_process.iter().map(|row| (process(row), row.tally)).collect();
    [
        ("by file", files),
        ("by function", functions),
        ("by process", processes),
    ]
}

fn function(row: &FunctionRow) -> String {
    match &row.function {
        Some(name) => name.clone(),
        None if row.seen => "(no function of the program)".to_owned(),
        None => "(unknown submitter)".to_owned(),
    }
}

fn process(row: &ProcessRow) -> String {
    let name = row.process.as_deref().unwrap_or("(unknown submitter)");
    match row.pid {
        Some(pid) => {
            let id = format!(" ({pid})");
            fit(name, (NAME - 1).saturating_sub(columns(&id))) + &id
        }
        None => name.to_owned(),
    }
}

fn table(title: &str, rows: &Rows, all: &Tally, top: usize) -> Vec<String> {
    let heads = ["I/Os", "read", "written", "share", "time"].map(str::to_owned);
    let mut lines = vec![String::new(), bold(&line(title, heads))];
    lines.extend(
        rows.iter()
            .take(top)
            .map(|(name, tally)| line(name, figures(tally, all))),
    );
    let more = rows.len().saturating_sub(top);
    if more > 0 {
        let mut rest = Tally::default();
        rows.iter().skip(top).for_each(|(_, tally)| rest.merge(tally));
        lines.push(line(&format!("({} more)", count(more as u64)), figures(&rest, all)));
    }
    if rows.len() > 1 {
        lines.push(line("total", figures(all, all)));
    }
    lines
}

/// Cells of a row. The share is of bytes, or of I/Os if no bytes were transferred.
fn figures(tally: &Tally, all: &Tally) -> [String; 5] {
    let share = if all.bytes() > 0 {
        percent(tally.bytes(), all.bytes())
    } else {
        percent(tally.ios, all.ios)
    };
    [
        count(tally.ios),
        size(tally.read_bytes),
        size(tally.written_bytes),
        share,
        duration(tally.time_ns),
    ]
}

/// Formats a line of a table.
fn line(name: &str, figures: [String; 5]) -> String {
    let name = fit(name, NAME - 1);
    let room = NAME.saturating_sub(columns(&name));
    let [first @ .., last] = figures;
    let mut line = format!("{name}{:room$}", "");
    for figure in first {
        let _ = write!(line, "{figure:>9}");
    }
    line + &format!("{last:>8}")
}

fn wasted(rows: &[WasteRow], top: usize) -> Vec<String> {
    let rows: Vec<&WasteRow> = rows.iter().filter(|row| row.wasted_bytes > 0).take(top).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let heads = ["", "", "read", "wasted", "share"].map(str::to_owned);
    let mut lines = vec![String::new(), bold(&line("read for faults and never mapped", heads))];
    lines.extend(rows.into_iter().map(|row| {
        let share = percent(row.wasted_bytes, row.read_for_faults_bytes);
        let figures = [
            String::new(),
            String::new(),
            size(row.read_for_faults_bytes),
            size(row.wasted_bytes),
            share,
        ];
        line(&path(&row.file, NAME - 1), figures)
    }));
    lines
}

fn tiny(rows: &[TinyRow], top: usize) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let heads = ["", "reads", "read", "mean", "time"].map(str::to_owned);
    let mut lines = vec![String::new(), bold(&line("many reads under 16 KiB", heads))];
    lines.extend(rows.iter().take(top).map(|row| {
        let function = row.function.as_deref().unwrap_or("(unknown)");
        let name = match row.file.as_deref().and_then(|path| path.rsplit('/').next()) {
            Some(file) => {
                let file = fit(file, NAME / 2 - 1);
                let of = format!(" of {file}");
                fit(function, (NAME - 1).saturating_sub(columns(&of))) + &of
            }
            None => function.to_owned(),
        };
        let mean = row.bytes.checked_div(row.reads).unwrap_or(0);
        line(
            &name,
            [
                String::new(),
                count(row.reads),
                size(row.bytes),
                size(mean),
                duration(row.time_ns),
            ],
        )
    }));
    lines
}

pub(super) fn bold(text: &str) -> String {
    let bold = anstyle::Style::new().bold();
    format!("{bold}{text}{bold:#}")
}

/// Formats bytes for a column: `34.5 MB`.
pub(super) fn size(sum: u64) -> String {
    match sum {
        0 => "0".to_owned(),
        1..1000 => format!("{sum} B"),
        _ => bytes(sum),
    }
}
