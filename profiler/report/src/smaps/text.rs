//! Prints memory footprints for a terminal with 80 columns.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::known::{Known, KnownRow};
use super::parse::Amounts;
use super::report::{Footprint, SectionRow, rank};
use super::touchers::Touchers;
use crate::text::{self, bytes, columns, count, fit, padded, warning};

/// Width of a name.
const NAME: usize = 26;
/// Width of a number.
const FIGURE: usize = 9;

/// Writes the footprint with ANSI styles; tables have at most `top` rows.
///
/// # Errors
/// Errors of the output.
pub fn write(out: &mut impl Write, footprint: &Footprint, top: usize) -> io::Result<()> {
    let mut lines = Vec::new();
    if footprint.by_process.len() > 1 {
        lines.push(head("process"));
        let rows = footprint.by_process.iter();
        lines.extend(rows.take(top).map(|row| {
            let name = format!("{} {}", row.pid, row.process);
            line(&fit(&name, NAME), &row.amounts)
        }));
        lines.extend(rest(footprint.by_process.len(), top));
        lines.push(line("all", &footprint.totals));
        lines.push(String::new());
    }
    lines.push(head("file"));
    let files = footprint.by_file.iter().filter(|row| is_there(&row.amounts));
    lines.extend(
        files
            .clone()
            .take(top)
            .map(|row| line(&text::path(&row.file, NAME), &row.amounts)),
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
    lines.push(head("section"));
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
pub fn write_known(out: &mut impl Write, known: &Known, top: usize) -> io::Result<()> {
    let bold = anstyle::Style::new().bold();
    let figures = ["touched", "distinct", "written"]
        .map(|name| format!("{name:>10}"))
        .concat();
    let mut lines = vec![format!("{bold}{}{figures}{bold:#}", padded("section", 50))];
    for row in known.by_section().take(top) {
        let KnownRow {
            touched_bytes,
            distinct_bytes,
            written_bytes,
            ..
        } = &row;
        let figures = [touched_bytes, distinct_bytes, written_bytes].map(|bytes| format!("{:>10}", size(*bytes)));
        let place = match &row.section {
            Some(section) => format!("{} {}", text::path(&row.file, 34), fit(section, 14)),
            None => text::path(&row.file, 49),
        };
        lines.push(padded(&place, 50) + &figures.concat());
        lines.extend(touchers(None, &row.functions));
    }
    lines.extend(rest(known.by_section().len(), top));
    lines.push(
        "touched: pages with a page fault, counted per process; `ngmi smaps PID` shows what is in memory".to_owned(),
    );
    let lines = lines.iter().flat_map(|line| match line.strip_prefix("touched: ") {
        Some(words) => {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            text::wrapped("touched:", &words, " ")
        }
        None => vec![line.clone()],
    });
    lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn is_there(amounts: &Amounts) -> bool {
    amounts.rss > 0 || amounts.swap > 0
}

fn head(what: &str) -> String {
    let bold = anstyle::Style::new().bold();
    let names = ["RSS", "PSS", "shared", "private", "dirty", "swap"];
    let figures = names.map(|name| format!("{name:>FIGURE$}")).concat();
    format!("{bold}{}{figures}{bold:#}", padded(what, NAME))
}

fn line(name: &str, amounts: &Amounts) -> String {
    let private = amounts.private_clean.saturating_add(amounts.private_dirty);
    let dirty = amounts.private_dirty.saturating_add(amounts.shared_dirty);
    let pss = amounts.pss.map_or_else(|| "?".to_owned(), size);
    let figures = [
        size(amounts.rss),
        pss,
        size(amounts.shared()),
        size(private),
        size(dirty),
        size(amounts.swap),
    ];
    padded(name, NAME) + &figures.map(|figure| format!("{figure:>FIGURE$}")).concat()
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
    let room = NAME.saturating_sub(columns(&section) + 1);
    let base = row.file.rsplit('/').next().unwrap_or(&row.file);
    format!("{} {section}", fit(base, room))
}

fn touchers(touched: Option<u64>, functions: &Touchers) -> Vec<String> {
    let told = functions.iter().take(2).map(|toucher| {
        let function = toucher.function.unwrap_or("(no function)");
        format!("{} {}", fit(function, 22), size(toucher.bytes))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        return Vec::new();
    }
    let of = touched.map_or_else(String::new, |bytes| format!("{} ", size(bytes)));
    let more = if functions.len() > 2 {
        format!(", {} more", count(functions.len() as u64 - 2))
    } else {
        String::new()
    };
    vec![fit(&format!("  {of}by {}{more}", told.join(", ")), text::WIDTH)]
}

fn rest(len: usize, top: usize) -> Option<String> {
    (len > top).then(|| format!("... {} more (--top)", count((len - top) as u64)))
}
