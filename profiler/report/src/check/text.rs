//! Writes a judgement to a terminal: exceeded limits first, then metrics that are unknown.

use std::io::{self, Write};

use super::judge::{Judgement, Limit, Row, Verdict};
use crate::grid::{Column, Grid};
use crate::text::{count, escaped, percent, warning, wrapped, write_lines};

const OVER: Grid<Row> = Grid {
    name: 39,
    gap: 1,
    columns: &[
        Column("limit", 12, |row, _| row.metric.show(row.limit)),
        Column("measured", 12, |row, _| row.metric.show(row.measured)),
        Column("over by", 14, |row, _| match row.verdict {
            Verdict::Over(over) => row.metric.show(over),
            _ => String::new(),
        }),
    ],
};

/// Writes the tables, in ANSI styles, at most 80 columns wide.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut dyn Write, judgement: &Judgement) -> io::Result<()> {
    let (all, over) = (judgement.rows.len(), judgement.over().count());
    let unknown = judgement.unknown().count();
    let within = all - over - unknown;
    if over > 0 {
        writeln!(out, "{}", OVER.head("over"))?;
        let mut rows: Vec<&Row> = judgement.over().collect();
        rows.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
        for row in rows {
            write_row(out, row)?;
        }
        writeln!(out)?;
    }
    for row in judgement.unmentioned() {
        let name = escaped(row.name.as_bytes());
        let line = row
            .line
            .map_or(String::new(), |line| format!(" (line {line} of the budget)"));
        let what = row.by.name();
        let text = format!(
            "no {what} is called `{name}`{line}, so its limit for {} always holds",
            row.metric.words()
        );
        write_lines(out, &warning(&text))?;
    }
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (row, why) in judgement.unknown() {
        let what = escaped(row.what().as_bytes());
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, rows)) => rows.push(what),
            None => reasons.push((why, vec![what])),
        }
    }
    for (why, rows) in reasons {
        write_lines(out, &warning(&format!("{}: unknown: {why}", rows.join(", "))))?;
    }
    let mut end = vec![
        format!("{} over,", count(over as u64)),
        format!("{} within", count(within as u64)),
    ];
    if unknown > 0 {
        end.push(format!("and {} unknown", count(unknown as u64)));
    }
    write_lines(out, &wrapped("limits:", &end, " "))
}

/// The excess over the limit, as a share of the limit.
fn excess(row: &Row) -> f64 {
    match row.verdict {
        Verdict::Over(over) => over as f64 / (row.limit.max(1)) as f64,
        _ => 0.0,
    }
}

fn write_row(out: &mut dyn Write, row: &Row) -> io::Result<()> {
    writeln!(out, "{}", OVER.row(&row.what(), row, row))?;
    if let Limit::Baseline { had, .. } = row.from {
        let more = match had {
            0 => String::new(), // nothing is a percentage of it
            _ => format!(": {} more", percent(row.measured.saturating_sub(had), had)),
        };
        writeln!(out, "  the baseline had {}{more}", row.metric.show(had))?;
    }
    Ok(())
}

/// A row's verdict in one line.
pub fn sentence(row: &Row) -> String {
    let show = |value| row.metric.show(value);
    match &row.verdict {
        Verdict::Over(over) => {
            let from = match row.from {
                Limit::Budget => String::new(),
                Limit::Baseline { had, .. } => format!(" (the baseline had {})", show(had)),
            };
            format!(
                "{}: {}, limit {} (over by {}){from}",
                row.what(),
                show(row.measured),
                show(row.limit),
                show(*over)
            )
        }
        Verdict::Unknown(why) => format!("{}: unknown: {why}", row.what()),
        Verdict::Unmentioned => format!(
            "no {} is called `{}`: its limit for {} always holds",
            row.by.name(),
            row.name,
            row.metric.words()
        ),
        Verdict::Within => format!("{}: {}, limit {}", row.what(), show(row.measured), show(row.limit)),
    }
}
