//! Prints the tables of waits for a terminal with 80 columns.

use std::io::{self, Write};

use super::report::WaitReport;
use super::tally::WaitTally;
use crate::grid::GroupRow;
use crate::lookup::{headline, selected_of};
use crate::text::{WIDTH, bold, count, duration, escaped, fit, percent, warning, write_lines};
use base::plural::counted;

/// Range of durations that the histogram distinguishes, as powers of two in ns: 1 µs to 17 s.
const LENGTHS: (usize, usize) = (10, 35);
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Writes the report with ANSI styles: tables with at most `top` rows and, if `stacks` is set, as many full stacks.
///
/// # Errors
/// Errors of the output.
pub fn write(out: &mut dyn Write, report: &WaitReport, top: usize, stacks: bool) -> io::Result<()> {
    let mut lines = head(report);
    if report.totals.waits > 0 {
        for table in report.tables.0.iter().filter(|table| !table.title.is_empty()) {
            lines.push(String::new());
            lines.extend(table.lines(&report.totals, top));
            if table.key == "by_reason" {
                lines.push(String::new());
                lines.extend(lengths(&table.rows));
            }
        }
        if stacks {
            let rows = report.tables.rows("by_stack").iter().take(top);
            lines.extend(rows.flat_map(|row| stack(row, &report.totals)));
        }
    }
    write_lines(out, &lines)
}

fn head(report: &WaitReport) -> Vec<String> {
    let recording = &report.recording;
    let totals = &report.totals;
    let seen = crate::export::ns(recording.end.since(recording.start));
    let mut lines = vec![headline(recording, &format!(", {} recorded", duration(seen)))];
    lines.push(format!(
        "waits:    {}, {} off-CPU = {} blocked + {} waiting for a CPU",
        selected_of(totals.waits, report.waits_in_file),
        duration(totals.off_ns),
        duration(totals.blocked_ns),
        duration(totals.queued_ns)
    ));
    let account = &report.lives;
    if account.threads > 0 {
        let known = account.on_ns.saturating_add(account.off_ns);
        lines.push(format!(
            "lifetime: {} of {} = {} on-CPU + {} off-CPU ({})",
            duration(account.life_ns),
            counted(account.threads, "thread"),
            duration(account.on_ns),
            duration(account.off_ns),
            percent(known, account.life_ns)
        ));
    }
    if let Some(problem) = &report.problem {
        lines.extend(warning(problem));
    }
    if report.like_earlier > 0 {
        lines.extend(warning(&format!(
            "stacks reused from an earlier wait with identical registers (rate limited): {}",
            count(report.like_earlier)
        )));
    }
    lines
}

/// Histogram of durations by reason, with a column per power of two.
fn lengths(rows: &[GroupRow<WaitTally>]) -> Vec<String> {
    let (low, high) = LENGTHS;
    let name = 14;
    // 2^10, 2^20 and 2^30 ns.
    let scale = format!("{:<10}{:<10}1 s", "1 µs", "1 ms");
    let mut lines = vec![bold(&format!("{:<name$}{scale}", "lengths"))];
    for row in rows {
        let buckets = row
            .lengths("lengths")
            .map_or(Vec::new(), |lengths| lengths.range(low, high));
        let most = buckets.iter().copied().max().unwrap_or(0).max(1);
        let bar = |waits: &u64| {
            // Any nonzero count is visible.
            let eighths = (u128::from(*waits) * 8).div_ceil(u128::from(most));
            BARS[usize::try_from(eighths).unwrap_or(0).min(8)]
        };
        let picture: String = buckets.iter().map(bar).collect();
        let reason = row.text("reason").unwrap_or_default();
        lines.push(format!("{reason:<name$}{}", picture.trim_end()));
    }
    lines
}

fn stack(row: &GroupRow<WaitTally>, all: &WaitTally) -> Vec<String> {
    let numbers = format!(
        "{} blocked, {} in run queue, waits: {} ({}), {}",
        duration(row.tally.blocked_ns),
        duration(row.tally.queued_ns),
        count(row.tally.waits),
        row.text("reason").unwrap_or_default(),
        percent(row.tally.blocked_ns, all.blocked_ns)
    );
    let mut lines = vec![String::new(), bold(&numbers)];
    let frames = row.names("frames");
    if frames.is_empty() {
        lines.push("    (no stack)".to_owned());
    }
    let line = |frame: &String| format!("    {}", fit(&escaped(frame.as_bytes()), WIDTH - 4));
    lines.extend(frames.iter().map(line));
    lines
}
