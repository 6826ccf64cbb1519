//! Writes a comparison to a terminal: totals, then the largest changes by function, file, section, thread and phase.

use std::cmp::Ordering;
use std::io::{self, Write};

use super::compare::{Diff, FALSE_SHARE, Gap, Row, Verdict};
use super::noise::smallest;
use crate::grid::{Column, Grid};
use crate::metrics::{By, Metric, Place};
use crate::text::{columns, count, fit, padded, path, warning, wrapped_words, write_lines};

/// The values of a line.
struct DiffLine {
    metric: Metric,
    /// Stands next to the name.
    what: String,
    /// Medians of both sets.
    a: u64,
    b: u64,
}

const GRID: Grid<DiffLine> = Grid {
    name: NAME + 2,
    gap: 1,
    columns: &[
        Column("", 16, |line, _| padded(&line.what, 16)),
        Column("A", 9, |line, _| line.metric.cell(line.a)),
        Column("B", 9, |line, _| line.metric.cell(line.b)),
        Column("change", 10, |line, _| match line.a.cmp(&line.b) {
            Ordering::Equal => "=".to_owned(),
            Ordering::Less => format!("+{}", line.metric.show(line.b - line.a)),
            Ordering::Greater => format!("-{}", line.metric.show(line.a - line.b)),
        }),
    ],
};

/// Width of a row's name after its mark, in columns.
const NAME: usize = 30;
/// Smaller shares do not count as a change.
const NOTHING: f64 = 1e-4;
/// The largest number of runs per set to recommend.
const MOST: usize = 50;

/// Writes the tables, in ANSI styles, at most 80 columns wide.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut dyn Write, diff: &Diff, names: (&str, &str), top: usize) -> io::Result<()> {
    head(out, diff, names)?;
    let totals = diff.by(By::Total).filter(|row| row.medians() != (0, 0));
    whole(out, "total", totals.map(|row| (row, row.metric.words())))?;
    let path = diff.path().filter(|row| row.medians() != (0, 0));
    whole(out, "critical path", path.map(|row| (row, reason(row.metric))))?;
    for by in [By::Function, By::File, By::Section, By::Thread, By::Phase] {
        table(out, diff, by, top)?;
    }
    gaps(out, &diff.gaps)
}

fn head(out: &mut dyn Write, diff: &Diff, (a, b): (&str, &str)) -> io::Result<()> {
    let runs = |runs: usize| {
        if runs == 1 {
            "1 run".to_owned()
        } else {
            format!("{runs} runs, medians")
        }
    };
    writeln!(out, "A: {} ({})", fit(a, 55), runs(diff.runs_a))?;
    writeln!(out, "B: {} ({})", fit(b, 55), runs(diff.runs_b))?;
    if diff.has_enough_runs {
        let changed = count(diff.changed().count() as u64);
        let words = format!(
            "{changed} of {} values changed by more than noise (exact Mann-Whitney test; at most 1 in 20 of these by chance); the others are marked ~",
            count(diff.rows.len() as u64)
        );
        write_lines(out, &wrapped_words("noise:", &words))?;
        return match diff
            .rows
            .iter()
            .filter(|row| row.verdict == Verdict::TooFewRuns)
            .count()
        {
            0 => Ok(()),
            undecided => {
                let (undecided, enough) = (count(undecided as u64), enough(diff.rows.len()));
                let words = format!(
                    "undecided (marked ?): {undecided}, as far as so few runs can show; record {enough} runs of each to be sure"
                );
                write_lines(out, &wrapped_words("      ", &words))
            }
        };
    }
    let words = if diff.runs_a == 1 && diff.runs_b == 1 {
        "one run each: not enough to distinguish a change from noise; record sets with `ngmi record --runs 7`"
            .to_owned()
    } else {
        format!(
            "too few runs to distinguish a change from noise: chance alone separates them this far in {:.0} % of cases; record 7 of each",
            100.0 * smallest(diff.runs_a, diff.runs_b)
        )
    };
    write_lines(out, &warning(&words))
}

/// The number of runs per set that distinguishes a single changed row among `rows` rows from chance.
fn enough(rows: usize) -> usize {
    (4..MOST)
        .find(|runs| smallest(*runs, *runs) * rows as f64 <= FALSE_SHARE)
        .unwrap_or(MOST)
}

/// The reason of a metric of the critical path.
fn reason(metric: Metric) -> String {
    match metric {
        Metric::Path(kind) => kind.name().to_owned(),
        other => other.words(),
    }
}

/// Values of a whole recording.
fn whole<'r>(out: &mut dyn Write, title: &str, rows: impl Iterator<Item = (&'r Row, String)>) -> io::Result<()> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "\n{}", GRID.head(title))?;
    for (row, name) in rows {
        let (a, b) = row.medians();
        let part = match (a, b) {
            (0, _) => "new".to_owned(),
            _ => format!("{:+.1} %", (b as f64 - a as f64) * 100.0 / a as f64),
        };
        write_row(out, row, &name, part)?;
    }
    Ok(())
}

fn table(out: &mut dyn Write, diff: &Diff, by: By, top: usize) -> io::Result<()> {
    let changed = || diff.by(by).filter(|row| row.share >= NOTHING);
    let all = changed().count();
    if all == 0 {
        return Ok(());
    }
    writeln!(out, "\n{}", GRID.head(&format!("by {}", by.name())))?;
    for row in changed().take(top) {
        let name = match &row.place {
            Place::File(file) => path(file, NAME),
            Place::Section(file, section) => {
                let section = fit(section, NAME / 2);
                format!("{}:{section}", path(file, NAME.saturating_sub(1 + columns(&section))))
            }
            Place::Function(function, _) => fit(function, NAME),
            other => fit(&other.name(), NAME),
        };
        write_row(out, row, &name, row.metric.words())?;
    }
    if all > top {
        writeln!(out, "  {} more (--top N, --json)", count((all - top) as u64))?;
    }
    Ok(())
}

fn write_row(out: &mut dyn Write, row: &Row, name: &str, what: String) -> io::Result<()> {
    let mark = match row.verdict {
        Verdict::Noise => '~',
        // Rows that were not tested have no mark.
        Verdict::TooFewRuns if row.probability.is_some() => '?',
        Verdict::TooFewRuns | Verdict::Changed => ' ',
    };
    let (a, b) = row.medians();
    let metric = row.metric;
    let line = DiffLine { metric, what, a, b };
    writeln!(out, "{}", GRID.row(&format!("{mark} {name}"), &line, &line))
}

fn gaps(out: &mut dyn Write, gaps: &[Gap]) -> io::Result<()> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    let is_whole = |gap: &Gap| gap.by == By::Total;
    // A metric without a total has no parts either: one line is enough.
    let has_total = |gap: &Gap| !gaps.iter().any(|other| is_whole(other) && other.metric == gap.metric);
    for gap in gaps.iter().filter(|gap| is_whole(gap) || has_total(gap)) {
        let metric = match gap.metric {
            Metric::Wait(_) => "waits".to_owned(),
            Metric::Path(_) => "critical path".to_owned(),
            metric => metric.words(),
        };
        let what = if gap.by == By::Total {
            metric
        } else {
            format!("{metric} by {}", gap.by.name())
        };
        match reasons.iter_mut().find(|(why, _)| *why == gap.why) {
            Some((_, known)) if known.contains(&what) => {}
            Some((_, known)) => known.push(what),
            None => reasons.push((&gap.why, vec![what])),
        }
    }
    for (why, what) in reasons {
        writeln!(out)?;
        write_lines(out, &warning(&format!("{}: not compared: {why}", what.join(", "))))?;
    }
    Ok(())
}
