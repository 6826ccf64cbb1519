//! Reports how cold or warm the files are when the command starts: a few lines for a terminal of 80 columns.

use std::collections::BTreeMap;
use std::path::Path;

use super::system::Dropped;
use super::{Entry, Why};
use crate::plural::counted;
use crate::record::options::Wanted;
use crate::report::repeat::CacheState;
use crate::report::text::{WIDTH, fit, wrapped_words};

/// Files that are named, at most.
const NAMED: usize = 4;
/// Columns of a file's name, at most.
const NAME_WIDTH: usize = 26;
/// Columns of `ngmi: `, to which the other lines are indented.
const INDENT: usize = 6;

/// The content of the report.
#[derive(Debug)]
pub struct Report<'a> {
    /// The requested state.
    pub wanted: Wanted,
    /// The files.
    pub entries: &'a [Entry],
    /// Notes for the user.
    pub notes: &'a [String],
    /// The result of dropping the machine's caches, if that was requested.
    pub dropped: Option<Result<Dropped, String>>,
}

/// Bytes of a file that are not in the requested state, as far as the kernel reported.
fn wrong(wanted: Wanted, entry: &Entry) -> u64 {
    match entry.after {
        Some(after) if wanted != Wanted::Warm => after,
        Some(after) => entry.len.saturating_sub(after),
        None => 0,
    }
}

/// Sums of all files.
pub fn state(wanted: Wanted, entries: &[Entry]) -> CacheState {
    let known = || entries.iter().filter(|entry| !entry.unreadable);
    CacheState {
        cold: wanted != Wanted::Warm,
        bytes: sum(known().map(|entry| entry.len)),
        wrong: sum(known().map(|entry| wrong(wanted, entry))),
        unreported: sum(entries
            .iter()
            .filter(|entry| entry.unreadable || entry.after.is_none())
            .map(|entry| entry.len)),
    }
}

impl Report<'_> {
    /// The lines: the first without `ngmi: `, the others indented.
    pub fn lines(&self) -> Vec<String> {
        let known: Vec<&Entry> = self.entries.iter().filter(|entry| !entry.unreadable).collect();
        let total = sum(known.iter().map(|entry| entry.len));
        let wrong = |entry: &Entry| wrong(self.wanted, entry);
        let mut left: Vec<&Entry> = known.iter().copied().filter(|entry| wrong(entry) > 0).collect();
        left.sort_by_key(|entry| (std::cmp::Reverse(wrong(entry)), &entry.path));
        let wrong_total = sum(left.iter().map(|entry| wrong(entry)));
        let mut lines = vec![self.head(&known, total, wrong_total)];
        lines.extend(table(&left, &wrong));
        lines.extend(self.unknown(&known));
        lines.extend(self.machine());
        lines.extend(unreadable(self.entries));
        lines.extend(self.notes.iter().flat_map(|note| wrapped(note)));
        lines
    }

    fn head(&self, known: &[&Entry], total: u64, wrong: u64) -> String {
        let files = counted(known.len() as u64, "file");
        let part = format!("{} ({:.1} %)", bytes(wrong), 100.0 * wrong as f64 / total.max(1) as f64);
        let moved = |by: fn(u64, u64) -> u64| {
            let moved = known.iter().map(|entry| Some(by(entry.before?, entry.after?)));
            moved
                .collect::<Option<Vec<u64>>>()
                .map(|all| bytes(sum(all.into_iter())))
        };
        let total = bytes(total);
        if self.wanted == Wanted::Warm {
            let read = moved(|before, after| after.saturating_sub(before))
                .map_or(String::new(), |read| format!("{read} read, "));
            return match wrong {
                0 => format!("warm: {files}, {total}: {read}all in memory"),
                _ => format!("warm: {files}, {total}: {read}{part} missing:"),
            };
        }
        let evicted = moved(u64::saturating_sub).map_or(String::new(), |evicted| format!("{evicted} evicted, "));
        match wrong {
            0 => format!("cold: {files}, {total}: {evicted}nothing left in memory"),
            _ => format!("cold: {files}, {total}: {evicted}{part} left in memory:"),
        }
    }

    /// Files whose state was sampled or is unknown.
    fn unknown(&self, known: &[&Entry]) -> Vec<String> {
        let mut lines = Vec::new();
        let sampled = known.iter().filter(|entry| entry.is_sampled).count() as u64;
        if sampled > 0 {
            let text = format!(
                "{} of other owners checked by sampling: only root can check every page",
                counted(sampled, "file")
            );
            lines.extend(wrapped(&text));
        }
        let unknown: Vec<&&Entry> = known.iter().filter(|entry| entry.after.is_none()).collect();
        if !unknown.is_empty() {
            let size = bytes(sum(unknown.iter().map(|entry| entry.len)));
            let did = if self.wanted == Wanted::Warm {
                "read"
            } else {
                "eviction requested"
            };
            lines.extend(wrapped(&format!(
                "{}, {size}: {did}, but this kernel does not report how much is in memory; only root can see it",
                counted(unknown.len() as u64, "file")
            )));
        }
        lines
    }

    fn machine(&self) -> Vec<String> {
        match &self.dropped {
            None => Vec::new(),
            Some(Err(why)) => wrapped(why),
            Some(Ok(Dropped { before, after })) => wrapped(&format!(
                "the whole machine, afterwards: cached files {} → {}, directories and inodes {} → {}",
                bytes(before.pages),
                bytes(after.pages),
                bytes(before.metadata),
                bytes(after.metadata)
            )),
        }
    }
}

/// The largest files with their reasons, and the sum of the rest.
fn table(left: &[&Entry], wrong: &dyn Fn(&Entry) -> u64) -> Vec<String> {
    let (largest, rest) = left.split_at(left.len().min(if left.len() == NAMED + 1 { NAMED + 1 } else { NAMED }));
    let names: Vec<String> = largest.iter().map(|entry| short_name(&entry.path)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut lines: Vec<String> = largest
        .iter()
        .zip(&names)
        .map(|(entry, name)| {
            let about = if entry.is_sampled { "~" } else { "" };
            let (part, all) = (format!("{about}{}", bytes(wrong(entry))), bytes(entry.len));
            let line = format!("{:INDENT$}{part:>9} of {all:>9}  {name:<width$}  ", "");
            let room = WIDTH.saturating_sub(line.chars().count());
            fit(&format!("{line}{}", reason(entry, room)), WIDTH)
        })
        .collect();
    if !rest.is_empty() {
        let size = bytes(sum(rest.iter().map(|entry| wrong(entry))));
        let size = format!("{:INDENT$}{size:>9} in {}", "", counted(rest.len() as u64, "more file"));
        let mapped = rest
            .iter()
            .filter(|entry| matches!(entry.why, Some(Why::Mapped(_))))
            .count();
        lines.push(match mapped {
            0 => size,
            mapped if mapped == rest.len() => format!("{size}, all mapped by processes"),
            mapped => format!("{size}, {mapped} of them mapped by processes"),
        });
    }
    lines
}

fn reason(entry: &Entry, room: usize) -> String {
    match &entry.why {
        Some(Why::Memory(name)) => format!("in memory ({name})"),
        Some(Why::Mapped(holders)) if !holders.is_all => format!("mapped by {}+ processes", holders.count),
        Some(Why::Mapped(holders)) if holders.count == 1 => {
            let short = format!("mapped by {}", holders.name);
            let long = format!("{short} ({})", holders.pid);
            if long.chars().count() <= room { long } else { short }
        }
        Some(Why::Mapped(holders)) => format!("mapped by {}", counted(u64::from(holders.count), "process")),
        Some(Why::Hidden) => "maybe mapped by others".to_owned(),
        Some(Why::Unwritten) => "is being written".to_owned(),
        Some(Why::NoRoom) => "not enough free memory".to_owned(),
        Some(Why::Reclaimed) => "reclaimed again".to_owned(),
        Some(Why::Failed(why)) => printable(why),
        None => "reason unknown".to_owned(),
    }
}

/// Files that the command mapped but that were not predicted, in folders with their counts.
pub fn missed(files: &[&Path], warm: bool, is_kept: bool) -> Vec<String> {
    let mut folders: BTreeMap<&Path, u64> = BTreeMap::new();
    for file in files {
        *folders.entry(file.parent().unwrap_or(file)).or_default() += 1;
    }
    let (flag, state) = if warm { ("--warm", "cold") } else { ("--cold", "warm") };
    let count = counted(files.len() as u64, "file");
    let mut lines = vec![format!(
        "{flag} did not predict {count}, mapped later and possibly {state}:"
    )];
    if files.len() <= NAMED {
        lines.extend(files.iter().flat_map(|file| wrapped(&shown(file))));
    } else {
        let mut most: Vec<(&Path, u64)> = folders.into_iter().collect();
        most.sort_by_key(|(folder, count)| (std::cmp::Reverse(*count), *folder));
        lines.extend(
            most.iter()
                .take(NAMED)
                .map(|(folder, count)| fit(&format!("{:INDENT$}{count:>9} in {}", "", shown(folder)), WIDTH)),
        );
        let rest: u64 = most.iter().skip(NAMED).map(|(_, count)| count).sum();
        if rest > 0 {
            lines.push(format!("{:INDENT$}{rest:>9} elsewhere", ""));
        }
    }
    lines.extend(wrapped(if is_kept {
        "they are remembered: the next recording of this program includes them"
    } else {
        "add a file or folder with --cold-file PATH (repeatable)"
    }));
    lines
}

fn unreadable(entries: &[Entry]) -> Vec<String> {
    let closed: Vec<String> = entries
        .iter()
        .filter(|entry| entry.unreadable)
        .map(|entry| shown(&entry.path))
        .collect();
    if closed.is_empty() {
        return Vec::new();
    }
    let (some, more) = (
        closed.iter().take(3).cloned().collect::<Vec<_>>().join(", "),
        closed.len().saturating_sub(3),
    );
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let files = counted(closed.len() as u64, "file");
    wrapped(&format!("{files} left unchanged (cannot be read): {some}{more}"))
}

/// The last part of a path, or as much of its end as fits.
fn short_name(path: &Path) -> String {
    let name = path
        .file_name()
        .map_or_else(|| shown(path), |name| printable(&name.to_string_lossy()));
    let len = name.chars().count();
    if len <= NAME_WIDTH {
        return name;
    }
    let end: String = name.chars().skip(len - (NAME_WIDTH - 1)).collect();
    format!("…{end}")
}

/// A path for a terminal.
pub fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// A text in full, without characters that a terminal would interpret.
pub fn printable(text: &str) -> String {
    fit(text, usize::MAX)
}

/// The text in indented lines; words longer than a line (paths) stay whole.
fn wrapped(text: &str) -> Vec<String> {
    wrapped_words(&" ".repeat(INDENT - 1), text)
}

/// A sum that can't overflow: sparse files may be of any size.
pub fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

/// Bytes for people, with three or four digits.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.95 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
