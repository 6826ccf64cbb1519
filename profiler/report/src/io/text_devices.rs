//! Prints the table of devices and the distribution of their latencies.

use super::devices::{DeviceRow, Times};
use super::report::IoReport;
use crate::grid::{Column, Grid};
use crate::text::{bold, columns, count, duration, fit, size};

/// Width of the bar column.
const BAR: usize = 20;

const DEVICES: Grid<DeviceRow> = Grid {
    name: 16,
    gap: 0,
    columns: &[
        Column("requests", 10, |row, _| count(row.requests)),
        Column("read", 9, |row, _| size(row.done.read_bytes)),
        Column("written", 9, |row, _| size(row.done.written_bytes)),
        Column("queue", 9, |row, _| time(row.queue.mean_ns())),
        Column("service", 9, |row, _| time(row.service.mean_ns())),
        Column("95 %", 9, |row, _| time(row.service.within_ns(95))),
        Column("depth", 9, |row, _| depth(row)),
    ],
};

/// The table of devices, and the latency histograms of those with the most bytes.
pub fn lines(report: &IoReport, top: usize) -> Vec<String> {
    let rows = report.by_device.iter().take(top);
    let name = |row: &DeviceRow| fit(&row.device, DEVICES.name - 2) + if row.stacked { " *" } else { "" };
    let mut lines = vec![String::new(), DEVICES.head("by device")];
    lines.extend(rows.map(|row| DEVICES.row(&name(row), row, row)));
    let more = report.by_device.len().saturating_sub(top);
    if more > 0 {
        lines.push(format!("({} more)", count(more as u64)));
    }
    lines.extend(report.by_device.iter().take(top.min(3)).flat_map(histogram));
    lines
}

fn time(time: Option<u64>) -> String {
    time.map_or_else(|| "-".to_owned(), duration)
}

fn depth(row: &DeviceRow) -> String {
    match row.depth_tenths() {
        None => "-".to_owned(),
        Some(tenths @ ..1000) => format!("{}.{}/{}", tenths / 10, tenths % 10, row.depth_max),
        Some(tenths) => format!("{}/{}", tenths / 10, row.depth_max),
    }
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
            cell(in_queue),
            "",
            cell(at_device)
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

fn cell(count_of: u64) -> String {
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
