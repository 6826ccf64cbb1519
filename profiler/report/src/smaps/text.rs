//! Prints memory footprints for a terminal with 80 columns.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::known::{Known, KnownRow};
use super::parse::Amounts;
use super::report::{Footprint, SectionRow, rank};
use super::touchers::Touchers;
use crate::grid::{Column, Grid};
use crate::text::{self, bytes, columns, count, fit, warning};
use fact::short_path;

/// Amounts of memory; zero, the most common value, is a dash.
const AMOUNTS: Grid<Amounts> = Grid {
    name: 26,
    gap: 0,
    columns: &[
        Column("RSS", 9, |of, _| size(of.rss)),
        Column("PSS", 9, |of, _| of.pss.map_or_else(|| "?".to_owned(), size)),
        Column("shared", 9, |of, _| size(of.shared())),
        Column("private", 9, |of, _| {
            size(of.private_clean.saturating_add(of.private_dirty))
        }),
        Column("dirty", 9, |of, _| {
            size(of.private_dirty.saturating_add(of.shared_dirty))
        }),
        Column("swap", 9, |of, _| size(of.swap)),
    ],
};

const TOUCHED: Grid<KnownRow> = Grid {
    name: 49,
    gap: 0,
    columns: &[
        Column("touched", 11, |row, _| size(row.touched_bytes)),
        Column("distinct", 10, |row, _| size(row.distinct_bytes)),
        Column("written", 10, |row, _| size(row.written_bytes)),
    ],
};

/// Writes the footprint with ANSI styles; tables have at most `top` rows.
///
/// # Errors
/// Errors of the output.
pub fn write(out: &mut dyn Write, footprint: &Footprint, top: usize) -> io::Result<()> {
    let mut lines = Vec::new();
    if footprint.by_process.len() > 1 {
        lines.push(AMOUNTS.head("process"));
        let rows = footprint.by_process.iter();
        lines.extend(rows.take(top).map(|row| {
            let name = format!("{} {}", row.pid, row.process);
            line(&name, &row.amounts)
        }));
        lines.extend(rest(footprint.by_process.len(), top));
        lines.push(line("all", &footprint.totals));
        lines.push(String::new());
    }
    lines.push(AMOUNTS.head("file"));
    let files = footprint.by_file.iter().filter(|row| is_there(&row.amounts));
    lines.extend(
        files
            .clone()
            .take(top)
            .map(|row| line(&text::path(&row.file, AMOUNTS.name), &row.amounts)),
    );
    lines.extend(rest(files.count(), top));
    if footprint.pss_rounding_bytes > 0 {
        let rounding = Amounts {
            pss: Some(footprint.pss_rounding_bytes),
            ..Amounts::default()
        };
        lines.push(line("(rounded by kernel)", &rounding));
    }
    lines.push(line("all", &footprint.totals));
    lines.push(String::new());
    lines.push(AMOUNTS.head("section"));
    let sections = sections(footprint);
    for (row, amounts) in sections.iter().take(top) {
        lines.push(line(&section(row), amounts));
        lines.extend(touchers(row.touched_bytes, &row.touched_by));
    }
    lines.extend(rest(sections.len(), top));
    if let Some((row, why)) = sections
        .iter()
        .find_map(|(row, _)| Some((row, row.unknown.as_deref()?)))
    {
        let file = text::path(&row.file, 40);
        lines.extend(warning(&format!("sections of {file} are unknown: {}", fit(why, 200))));
    }
    if footprint.totals.hugetlb > 0 {
        lines.push(format!(
            "huge pages of hugetlbfs (not in any table): {}",
            size(footprint.totals.hugetlb)
        ));
    }
    if !footprint.changed.is_empty() {
        let pids: Vec<String> = footprint.changed.iter().take(5).map(u32::to_string).collect();
        let pids = pids.join(", ");
        lines.extend(warning(&format!(
            "processes that changed while being read: {pids}; rows do not add up; stop them first (`kill -STOP PID`)"
        )));
    }
    text::write_lines(out, &lines)
}

/// Writes the memory touched in a recording, without live processes.
///
/// # Errors
/// Errors of the output.
pub fn write_known(out: &mut dyn Write, known: &Known, top: usize) -> io::Result<()> {
    let mut lines = vec![TOUCHED.head("section")];
    for row in known.by_section().take(top) {
        let place = match &row.section {
            Some(section) => format!("{} {}", text::path(&row.file, 34), fit(section, 14)),
            None => text::path(&row.file, TOUCHED.name),
        };
        lines.push(TOUCHED.row(&place, &row, &row));
        lines.extend(touchers(None, &row.functions));
    }
    lines.extend(rest(known.by_section().len(), top));
    let note = "pages with a page fault, counted per process; `ngmi smaps PID` shows what is in memory";
    lines.extend(text::wrapped_words("touched:", note));
    text::write_lines(out, &lines)
}

fn is_there(amounts: &Amounts) -> bool {
    amounts.rss > 0 || amounts.swap > 0
}

fn line(name: &str, amounts: &Amounts) -> String {
    AMOUNTS.row(name, amounts, amounts)
}

/// Formats an amount; zero, the most common value, is a dash.
fn size(amount: u64) -> String {
    if amount == 0 { "-".to_owned() } else { bytes(amount) }
}

/// Sums of sections of files over all processes, each with its first row.
fn sections(footprint: &Footprint) -> Vec<(&SectionRow, Amounts)> {
    let mut sums: Vec<(&SectionRow, Amounts)> = Vec::new();
    let mut places = FxHashMap::default();
    let of_files = |row: &&SectionRow| row.inode.is_some() && is_there(&row.amounts);
    for row in footprint.by_section.iter().filter(of_files) {
        let key = (&row.file, &row.section, &row.unknown);
        if let Some((_, sum)) = places.get(&key).and_then(|place| sums.get_mut(*place)) {
            *sum += row.amounts;
        } else {
            places.insert(key, sums.len());
            sums.push((row, row.amounts));
        }
    }
    sums.sort_by_key(|(_, amounts)| std::cmp::Reverse(rank(amounts)));
    sums
}

fn section(row: &SectionRow) -> String {
    let unknown = row.unknown.as_ref().map(|_| "?");
    let section = fit(row.section.as_deref().or(unknown).unwrap_or_default(), 12);
    let room = AMOUNTS.name.saturating_sub(columns(&section) + 1);
    format!("{} {section}", fit(short_path(&row.file), room))
}

fn touchers(touched: Option<u64>, functions: &Touchers) -> Vec<String> {
    let shown = functions.iter().take(2).map(|toucher| {
        let function = toucher.function.unwrap_or("(no function)");
        format!("{} {}", fit(function, 22), size(toucher.bytes))
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let of = touched.map_or_else(String::new, |bytes| format!("{} ", size(bytes)));
    let more = if functions.len() > 2 {
        format!(", {} more", count(functions.len() as u64 - 2))
    } else {
        String::new()
    };
    vec![fit(&format!("  {of}by {}{more}", shown.join(", ")), text::WIDTH)]
}

fn rest(len: usize, top: usize) -> Option<String> {
    (len > top).then(|| format!("... {} more (--top)", count((len - top) as u64)))
}
