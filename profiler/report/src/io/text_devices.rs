//! Prints the table of devices and the distribution of their latencies.

use std::fmt::Write as _;

use super::devices::{DeviceRow, Times};
use super::report::IoReport;
use super::text::{bold, size};
use crate::text::{columns, count, duration, fit};

/// Width of a device's name.
const NAME: usize = 17;
/// Width of the bar column.
const BAR: usize = 20;

/// The table of devices, and the latency histograms of those with the most bytes.
pub fn lines(report: &IoReport, top: usize) -> Vec<String> {
    let heads = ["requests", "read", "written", "queue", "service", "95 %", "depth"].map(str::to_owned);
    let mut lines = vec![String::new(), bold(&line("by device", &heads))];
    lines.extend(report.by_device.iter().take(top).map(row));
    let more = report.by_device.len().saturating_sub(top);
    if more > 0 {
        lines.push(format!("({} more)", count(more as u64)));
    }
    for row in report.by_device.iter().take(top.min(3)) {
        lines.extend(histogram(row));
    }
    lines
}

fn row(row: &DeviceRow) -> String {
    let star = if row.stacked { " *" } else { "" };
    let name = fit(&row.device, NAME - 3) + star;
    let time = |time: Option<u64>| time.map_or_else(|| "-".to_owned(), duration);
    let depth = match row.depth_tenths() {
        None => "-".to_owned(),
        Some(tenths @ ..1000) => format!("{}.{}/{}", tenths / 10, tenths % 10, row.depth_max),
        Some(tenths) => format!("{}/{}", tenths / 10, row.depth_max),
    };
    let figures = [
        count(row.requests),
        size(row.done.read_bytes),
        size(row.done.written_bytes),
        time(row.queue.mean_ns()),
        time(row.service.mean_ns()),
        time(row.service.within_ns(95)),
        depth,
    ];
    line(&name, &figures)
}

/// Formats a line of the table.
fn line(name: &str, figures: &[String; 7]) -> String {
    let room = NAME.saturating_sub(columns(name));
    let mut line = format!("{name}{:room$}", "");
    for figure in figures {
        let _ = write!(line, "{figure:>9}");
    }
    line
}

/// Histogram of a device's latencies, by powers of two.
fn histogram(row: &DeviceRow) -> Vec<String> {
    let (queue, service) = (&row.queue, &row.service);
    let most = queue
        .histogram
        .iter()
        .chain(&service.histogram)
        .copied()
        .max()
        .unwrap_or(0);
    if most == 0 {
        return Vec::new();
    }
    let has = |times: &Times, step: usize| times.histogram.get(step).copied().unwrap_or(0);
    let steps = queue.histogram.len().max(service.histogram.len());
    let first = (0..steps)
        .find(|step| has(queue, *step) + has(service, *step) > 0)
        .unwrap_or(0);
    let title = format!("times of {}", fit(&row.device, 12));
    let room = 23_usize.saturating_sub(columns(&title));
    let mut lines = vec![
        String::new(),
        bold(&format!(
            "{title}{:room$}{:>8} {:BAR$}{:>8}",
            "", "queue", "", "service"
        )),
    ];
    // All times below a microsecond share one step.
    let start = if first < 10 { 9 } else { first };
    for step in start..steps {
        let of = |times: &Times| match step {
            9 => times.histogram.iter().take(10).sum(),
            _ => has(times, step),
        };
        let range = match step {
            9 => format!("{:>23}", "up to 1.02 µs"),
            _ => format!("{:>10} to {:>9}", duration(power(step)), duration(power(step + 1))),
        };
        let (in_queue, at_device) = (of(queue), of(service));
        let (left, right) = (bar(in_queue, most), bar(at_device, most));
        let room = BAR.saturating_sub(columns(&left));
        let line = format!(
            "{range}{:>8} {left}{:room$}{:>8} {right}",
            figure(in_queue),
            "",
            figure(at_device)
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

fn figure(count_of: u64) -> String {
    if count_of == 0 { String::new() } else { count(count_of) }
}

fn power(step: usize) -> u64 {
    u32::try_from(step)
        .ok()
        .and_then(|step| 1_u64.checked_shl(step))
        .unwrap_or(u64::MAX)
}

fn bar(count: u64, most: u64) -> String {
    let room = BAR as u64 - 2;
    let length = u128::from(count) * u128::from(room) / u128::from(most.max(1));
    let shown = usize::try_from(length).unwrap_or(0).max(usize::from(count > 0));
    "#".repeat(shown)
}
