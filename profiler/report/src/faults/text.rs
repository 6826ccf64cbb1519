//! Prints the tables of page faults for a terminal with 80 columns.

use std::cmp::Reverse;
use std::io::{self, Write};

use super::account::AccountTotal;
use super::phase::Phase;
use super::report::{FaultReport, FileRow, FunctionRow};
use super::tally::{Tally, TimeParts};
use super::text_pages;
use super::warn::{Tier, warnings};
use crate::export::ns;
use crate::findings::Finding;
use crate::text::{WIDTH, columns, count, duration, fit, path, percent, warning, wrapped};
use base::plural::counted;
use fact::account::is_exact_touch;

/// Width of the numbers after a row's name, in columns.
const FIGURES: usize = 44;
pub(super) const NAME: usize = WIDTH - FIGURES;

/// Writes the report in ANSI styles; each table has at most `top` rows.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, report: &FaultReport, top: usize) -> io::Result<()> {
    for line in head(report) {
        writeln!(out, "{line}")?;
    }
    if report.totals.faults == 0 {
        return Ok(());
    }
    for table in tables(report, top) {
        writeln!(out)?;
        for line in table.lines(&report.totals, top) {
            writeln!(out, "{line}")?;
        }
    }
    for line in text_pages::lines(report, top) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn head(report: &FaultReport) -> Vec<String> {
    let recording = &report.recording;
    let totals = &report.totals;
    let command = recording.command.join(" ");
    let command = if command.is_empty() { &recording.scope } else { &command };
    let seen = recording.end.since(recording.start);
    let tier = Tier::of(recording).map_or("an unknown tier", Tier::words);
    let figures = format!(", {} recorded by {tier}", duration(ns(seen)));
    let mut lines = vec![fit(command, WIDTH.saturating_sub(columns(&figures))) + &figures];
    let of = if totals.faults == report.faults_in_file {
        String::new()
    } else {
        format!(" of {}", count(report.faults_in_file))
    };
    let mut words = vec![
        format!("{}{of}", count(totals.faults)),
        format!("{} major", count(totals.major)),
    ];
    words.push(format!("{} waited for a read", count(totals.waited)));
    words.push(format!("{} failed", count(totals.failed)));
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
        words.push(format!("seen {}", count(account.seen)));
        words.push(format!("lost {}", count(account.lost)));
        if account.filtered > 0 {
            words.push(format!("not requested {}", count(account.filtered)));
        }
        let sign = if account.not_visible < 0 { "-" } else { "" };
        words.push(format!(
            "not visible to this tier {sign}{}",
            count(account.not_visible.unsigned_abs())
        ));
    }
    if account.unwatched > 0 {
        let threads = count(account.unwatched);
        words.push(format!("threads that ended without a traced fault {threads}"));
    }
    words
}

/// A table with all of its rows.
struct Table {
    title: String,
    rows: Vec<(String, Figures)>,
    /// The sum of all rows; `None` if they overlap.
    total: Option<Tally>,
}

/// The numbers of a row.
#[derive(Clone, Copy)]
struct Figures {
    faults: u64,
    /// Major faults, and faults that waited; `None` leaves these columns empty.
    kinds: Option<(u64, u64)>,
    time_ns: u64,
}

impl From<Tally> for Figures {
    fn from(tally: Tally) -> Self {
        Self {
            faults: tally.faults,
            kinds: Some((tally.major, tally.waited)),
            time_ns: tally.time_ns,
        }
    }
}

impl Table {
    fn new(title: impl Into<String>, total: Tally, rows: impl Iterator<Item = (String, Tally)>) -> Self {
        Self {
            title: title.into(),
            rows: rows.map(|(name, tally)| (name, tally.into())).collect(),
            total: Some(total),
        }
    }

    fn lines(&self, all: &Tally, top: usize) -> Vec<String> {
        let bold = anstyle::Style::new().bold();
        let title = fit(&self.title, NAME - 1);
        let room = NAME.saturating_sub(columns(&title));
        let mut lines = vec![format!(
            "{bold}{title}{:room$}{:>11}{:>8}{:>8}{:>9}{:>8}{bold:#}",
            "", "faults", "major", "waited", "time", "share"
        )];
        lines.extend(
            self.rows
                .iter()
                .take(top)
                .map(|(name, figures)| row(name, *figures, all)),
        );
        let more = self.rows.len().saturating_sub(top);
        let Some(total) = self.total else { return lines };
        if more > 0 {
            let mut rest = Tally::default();
            for (_, figures) in self.rows.iter().skip(top) {
                let (major, waited) = figures.kinds.unwrap_or_default();
                rest.merge(&Tally {
                    faults: figures.faults,
                    major,
                    waited,
                    time_ns: figures.time_ns,
                    ..Tally::default()
                });
            }
            lines.push(row(&format!("({} more)", count(more as u64)), rest.into(), all));
        }
        if self.rows.len() > 1 {
            lines.push(row("total", total.into(), all));
        }
        lines
    }
}

/// Formats a line of a table. The share is of the time if it is known, otherwise of the number of faults.
fn row(name: &str, figures: Figures, all: &Tally) -> String {
    let share = if all.time_ns > 0 {
        percent(figures.time_ns, all.time_ns)
    } else {
        percent(figures.faults, all.faults)
    };
    let (major, waited) = match figures.kinds {
        Some((major, waited)) => (count(major), count(waited)),
        None => (String::new(), String::new()),
    };
    let time = if all.time_ns > 0 {
        duration(figures.time_ns)
    } else {
        "-".to_owned()
    };
    let name = fit(name, NAME - 1);
    let room = NAME.saturating_sub(columns(&name));
    let faults = count(figures.faults);
    format!("{name}{:room$}{faults:>11}{major:>8}{waited:>8}{time:>9}{share:>8}", "")
}

fn tables(report: &FaultReport, top: usize) -> Vec<Table> {
    let totals = report.totals;
    let files = report.by_file.iter().map(|row| (file_name(row), row.tally));
    let mut tables = vec![Table::new("by file", totals, files)];
    tables.extend(sections(report));
    let own = report.by_function.iter().filter(|row| row.tally.faults > 0);
    tables.push(Table::new(
        "by function, own faults",
        totals,
        own.map(|row| (function_name(row), row.tally)),
    ));
    tables.push(with_callees(&report.by_function, top));
    let classes = report
        .by_class
        .iter()
        .map(|row| (row.class.name().to_owned(), row.tally));
    tables.push(Table::new("by class", totals, classes));
    let processes = report.by_process.iter();
    let processes = processes.map(|row| (with_id(&row.process, row.pid), row.tally));
    tables.push(Table::new("by process", totals, processes));
    let threads = report
        .by_thread
        .iter()
        .map(|row| (with_id(&row.thread, row.tid), row.tally));
    tables.push(Table::new("by thread", totals, threads));
    let phases = report.by_phase.iter();
    let phases = phases.map(|row| (row.phase.map_or("(unknown)", Phase::name).to_owned(), row.tally));
    tables.push(Table::new("by phase", totals, phases));
    tables
}

/// The sections of the file with the most time.
fn sections(report: &FaultReport) -> Option<Table> {
    let file = report.by_file.iter().find(|row| row.id.is_some())?;
    let path = file.file.as_deref().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or(path);
    let rows = report.by_section.iter().filter(|row| row.id == file.id);
    let rows = rows.map(|row| {
        (
            row.section.as_deref().unwrap_or("(none or unknown)").to_owned(),
            row.tally,
        )
    });
    Some(Table::new(format!("by section of {name}"), file.tally, rows))
}

fn with_callees(functions: &[FunctionRow], top: usize) -> Table {
    let mut rows: Vec<&FunctionRow> = functions.iter().filter(|row| row.function.is_some()).collect();
    rows.sort_by_key(|row| Reverse((row.inclusive_time_ns, row.inclusive_faults)));
    let figures = |row: &FunctionRow| Figures {
        faults: row.inclusive_faults,
        kinds: None,
        time_ns: row.inclusive_time_ns,
    };
    Table {
        title: "by function, with callees".to_owned(),
        rows: rows
            .iter()
            .take(top)
            .map(|row| (function_name(row), figures(row)))
            .collect(),
        total: None,
    }
}

fn file_name(row: &FileRow) -> String {
    path(row.file.as_deref().unwrap_or("(no file)"), NAME - 1)
}

fn function_name(row: &FunctionRow) -> String {
    let name = row.function.as_deref();
    name.unwrap_or("(no function of the program)").to_owned()
}

fn with_id(name: &str, id: u32) -> String {
    let id = format!(" ({id})");
    fit(name, (NAME - 1).saturating_sub(columns(&id))) + &id
}
