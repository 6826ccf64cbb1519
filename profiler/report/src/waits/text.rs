//! Prints the tables of waits for a terminal with 80 columns.

use std::io::{self, Write};

use super::report::{ReasonRow, StackRow, WaitReport, WakerRow};
use super::tally::Tally;
use crate::text::{columns, count, duration, escaped, fit, path, percent, warning};
use base::plural::counted;

/// Width of the terminal in columns.
const WIDTH: usize = 80;
/// Width of the numbers after a name.
const FIGURES: usize = 45;
const NAME: usize = WIDTH - FIGURES;
/// Range of durations that the histogram distinguishes, as powers of two in ns: 1 µs to 17 s.
const LENGTHS: (usize, usize) = (10, 35);
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Writes the report with ANSI styles: tables with at most `top` rows and, if `stacks` is set, as many full stacks.
///
/// # Errors
/// Errors of the output.
pub fn write(out: &mut impl Write, report: &WaitReport, top: usize, stacks: bool) -> io::Result<()> {
    for line in head(report) {
        writeln!(out, "{line}")?;
    }
    if report.totals.waits == 0 {
        return Ok(());
    }
    for (title, rows) in tables(report) {
        writeln!(out)?;
        for line in table(title, &rows, &report.totals, top) {
            writeln!(out, "{line}")?;
        }
        if title == "by reason" {
            writeln!(out)?;
            for line in lengths(&report.by_reason) {
                writeln!(out, "{line}")?;
            }
        }
    }
    if stacks {
        for row in report.by_stack.iter().take(top) {
            writeln!(out)?;
            for line in stack(row, &report.totals) {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

fn head(report: &WaitReport) -> Vec<String> {
    let recording = &report.recording;
    let totals = &report.totals;
    let command = recording.command.join(" ");
    let command = if command.is_empty() { &recording.scope } else { &command };
    let seen = crate::export::ns(recording.end.since(recording.start));
    let figures = format!(", {} recorded", duration(seen));
    let mut lines = vec![fit(command, WIDTH.saturating_sub(columns(&figures))) + &figures];
    let of = if totals.waits == report.waits_in_file {
        String::new()
    } else {
        format!(" of {}", count(report.waits_in_file))
    };
    lines.push(format!(
        "waits = {}{of}, {} off-CPU = {} blocked + {} waiting for a CPU",
        count(totals.waits),
        duration(totals.off_ns),
        duration(totals.blocked_ns),
        duration(totals.queued_ns)
    ));
    let account = &report.lives;
    if account.threads > 0 {
        let known = account.on_ns.saturating_add(account.off_ns);
        lines.push(format!(
            "lifetime of {} = {} on + {} off CPU: {} of {}",
            counted(account.threads, "thread"),
            duration(account.on_ns),
            duration(account.off_ns),
            percent(known, account.life_ns),
            duration(account.life_ns)
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

/// Title and rows of each table.
fn tables(report: &WaitReport) -> Vec<(&'static str, Vec<(String, Tally)>)> {
    let or = |name: &Option<String>, none: &str| name.clone().unwrap_or_else(|| none.to_owned());
    let functions = report.by_function.iter().map(|row| {
        let reason = row.reason.name();
        let room = NAME.saturating_sub(columns(reason) + 4);
        let name = fit(&or(&row.function, "(no function of the program)"), room);
        (format!("{name} ({reason})"), row.tally)
    });
    let calls = report
        .by_call
        .iter()
        .map(|row| (or(&row.call, "(no system call)"), row.tally));
    let files = report.by_file.iter().map(|row| {
        let name = row.file.as_deref().map(|file| path(file, NAME - 1));
        (or(&name, "(no known file)"), row.tally)
    });
    let processes = report.by_process.iter();
    vec![
        (
            "by reason",
            report
                .by_reason
                .iter()
                .map(|row| (row.reason.name().to_owned(), row.tally))
                .collect(),
        ),
        ("by function (main reason)", functions.collect()),
        ("by system call", calls.collect()),
        ("by file", files.collect()),
        (
            "by waker",
            report.by_waker.iter().map(|row| (waker(row), row.tally)).collect(),
        ),
        (
            "by process",
            processes
                .map(|row| (with_id(&row.process, row.pid), row.tally))
                .collect(),
        ),
        (
            "by thread",
            report
                .by_thread
                .iter()
                .map(|row| (with_id(&row.thread, row.tid), row.tally))
                .collect(),
        ),
    ]
}

fn waker(row: &WakerRow) -> String {
    match (&row.waker, row.tid) {
        (Some(name), Some(tid)) => with_id(name, tid),
        (Some(name), None) => format!("({name})"),
        (None, Some(tid)) => format!("(thread {tid}, not recorded)"),
        (None, None) => "(none or unknown)".to_owned(),
    }
}

fn table(title: &str, rows: &[(String, Tally)], all: &Tally, top: usize) -> Vec<String> {
    let bold = anstyle::Style::new().bold();
    let title = fit(title, NAME - 1);
    let room = NAME.saturating_sub(columns(&title));
    let mut lines = vec![format!(
        "{bold}{title}{:room$}{:>11}{:>9}{:>8}{:>9}{:>8}{bold:#}",
        "", "waits", "blocked", "queue", "longest", "share"
    )];
    lines.extend(rows.iter().take(top).map(|(name, tally)| row(name, tally, all)));
    if rows.len() > top {
        let mut rest = Tally::default();
        rows.iter().skip(top).for_each(|(_, tally)| rest.merge(tally));
        lines.push(row(&format!("({} more)", count((rows.len() - top) as u64)), &rest, all));
    }
    if rows.len() > 1 {
        lines.push(row("total", all, all));
    }
    lines
}

fn row(name: &str, tally: &Tally, all: &Tally) -> String {
    let name = fit(name, NAME - 1);
    let room = NAME.saturating_sub(columns(&name));
    let [waits, blocked, queue] = [
        count(tally.waits),
        duration(tally.blocked_ns),
        duration(tally.queued_ns),
    ];
    let longest = duration(tally.longest_ns);
    let share = percent(tally.blocked_ns, all.blocked_ns);
    format!(
        "{name}{:room$}{waits:>11}{blocked:>9}{queue:>8}{longest:>9}{share:>8}",
        ""
    )
}

/// Histogram of durations by reason, with a column per power of two.
fn lengths(rows: &[ReasonRow]) -> Vec<String> {
    let bold = anstyle::Style::new().bold();
    let (low, high) = LENGTHS;
    let name = 14;
    // 2^10, 2^20 and 2^30 ns.
    let scale = format!("{:<10}{:<10}1 s", "1 µs", "1 ms");
    let mut lines = vec![format!("{bold}{:<name$}{scale}{bold:#}", "lengths")];
    for row in rows {
        let buckets = row.lengths.range(low, high);
        let most = buckets.iter().copied().max().unwrap_or(0).max(1);
        let bar = |waits: &u64| {
            // Any nonzero count is visible.
            let eighths = (u128::from(*waits) * 8).div_ceil(u128::from(most));
            BARS[usize::try_from(eighths).unwrap_or(0).min(8)]
        };
        let picture: String = buckets.iter().map(bar).collect();
        lines.push(format!("{:<name$}{}", row.reason.name(), picture.trim_end()));
    }
    lines
}

fn stack(row: &StackRow, all: &Tally) -> Vec<String> {
    let bold = anstyle::Style::new().bold();
    let figures = format!(
        "{} blocked, {} in run queue, waits: {} ({}), {}",
        duration(row.tally.blocked_ns),
        duration(row.tally.queued_ns),
        count(row.tally.waits),
        row.reason.name(),
        percent(row.tally.blocked_ns, all.blocked_ns)
    );
    let mut lines = vec![format!("{bold}{figures}{bold:#}")];
    if row.frames.is_empty() {
        lines.push("    (no stack)".to_owned());
    }
    lines.extend(
        row.frames
            .iter()
            .map(|frame| format!("    {}", fit(&escaped(frame.as_bytes()), WIDTH - 4))),
    );
    lines
}

fn with_id(name: &str, id: u32) -> String {
    let id = format!(" ({id})");
    fit(name, (NAME - 1).saturating_sub(columns(&id))) + &id
}
