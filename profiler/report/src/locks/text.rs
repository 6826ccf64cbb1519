//! Prints the table of locks for a terminal with 80 columns, and below it the first locks.

use std::io::{self, Write};

use super::inversion::{Inversion, RankedThread};
use super::report::{LockDetails, LockEntry, LockReport};
use crate::grid::{Column, Grid, GroupRow};
use crate::lookup::{headline, selected_of};
use crate::text::{WIDTH, bold, count, duration, escaped, fit, fit_middle, percent, warning, wrapped, write_lines};
use base::plural::{self, counted};
use profiler_common::Loss;

/// Number of locks below the table, and of rows in each of their tables.
const LOCKS_BELOW: usize = 5;
const ROWS: usize = 5;
/// Largest width of a lock's own name in the table, which leaves space for its function.
const LOCK_WIDTH: usize = 16;
/// Of one that has a name.
const NAME_WIDTH: usize = 28;

const LOCKS: Grid<LockEntry> = Grid {
    name: 31,
    gap: 0,
    columns: &[
        Column("waits", 10, |lock, _| count(lock.totals.waits)),
        Column("blocked", 8, |lock, _| duration(lock.totals.blocked_ns)),
        Column("longest", 8, |lock, _| duration(lock.totals.longest_ns)),
        Column("threads", 8, |lock, _| count(lock.waiters)),
        Column("mostly held by", 15, |lock, _| fit(&lock.holder(), 14)),
    ],
};

impl LockEntry {
    /// Its name, function and process in one line.
    fn title(&self) -> String {
        let mut title = escaped(self.lock.as_bytes());
        match (&self.function, &self.address) {
            (Some(_), Some(address)) if self.is_called_after_function() => title = format!("{title}, {address}"),
            (Some(function), _) => title = format!("{title} in {}", escaped(function.as_bytes())),
            _ => {}
        }
        match (&self.process, self.pid) {
            (Some(process), Some(pid)) => format!("{title}, process {} ({pid})", escaped(process.as_bytes())),
            _ => title,
        }
    }

    /// Whether its name is that of a function, because it is in the heap.
    fn is_called_after_function(&self) -> bool {
        self.kind == "futex" && self.file.is_none() && self.lock.starts_with("futex ")
    }

    fn short(&self, place: usize) -> String {
        let is_named = self.kind != "futex" || self.symbol.is_some();
        if self.is_called_after_function() || (is_named && self.lock.len() > LOCK_WIDTH) {
            return format!("{place} {}", fit_middle(&self.lock, NAME_WIDTH));
        }
        let lock = fit_middle(&self.lock, LOCK_WIDTH);
        let function = self.function.as_ref().map(|function| format!(" in {function}"));
        format!("{place} {lock}{}", function.unwrap_or_default())
    }

    /// The known holder that had it longest while others waited.
    fn holder(&self) -> String {
        let details = self.details.as_ref();
        let rows = details.map_or(&[][..], |details| &details.by_holder.rows);
        let known = rows.iter().find_map(|row| row.text("thread"));
        known.unwrap_or_default().to_owned()
    }
}

/// Writes the report with ANSI styles: at most `top` locks, the first of them in detail and, if `stacks` is set, with
/// whole stacks.
///
/// # Errors
/// Errors of the output.
pub fn write(out: &mut dyn Write, report: &LockReport, top: usize, stacks: bool) -> io::Result<()> {
    let mut lines = head(report);
    let rows = report.locks.iter().take(top).enumerate();
    lines.extend(LOCKS.table("by lock", rows.map(|(place, lock)| (lock.short(place + 1), lock))));
    if report.locks.len() > top {
        lines.push(format!("({} more)", count((report.locks.len() - top) as u64)));
    }
    let below = report.locks.iter().take(top.min(LOCKS_BELOW)).enumerate();
    for (place, lock) in below {
        if let Some(details) = &lock.details {
            lines.push(String::new());
            let title = format!("{} {}", place + 1, lock.title());
            lines.push(bold(&fit(&title, WIDTH)));
            lines.extend(below_lock(lock, details, stacks));
        }
    }
    write_lines(out, &lines)
}

fn head(report: &LockReport) -> Vec<String> {
    let recording = &report.recording;
    let seen = crate::export::ns(recording.end.since(recording.start));
    let totals = &report.totals;
    let mut lines = vec![headline(recording, &format!(", {} recorded", duration(seen)))];
    lines.push(format!(
        "waits:    {} for {}, {} blocked + {} waiting for a CPU",
        selected_of(totals.waits, report.waits_in_file),
        counted(report.locks.len() as u64, "lock"),
        duration(totals.blocked_ns),
        duration(totals.queued_ns)
    ));
    if let Some(missed) = recording.lost(Loss::SwitchMissed) {
        let text = format!(
            "{}: holders count as running meanwhile",
            plural::loss(Loss::SwitchMissed.name(), missed)
        );
        lines.extend(warning(&text));
    }
    lines
}

fn below_lock(lock: &LockEntry, details: &LockDetails, stacks: bool) -> Vec<String> {
    let mut lines = patterns(lock, details);
    lines.extend(details.by_holder.lines(&details.held, ROWS));
    lines.extend(released(details));
    lines.extend(details.by_waiter.lines(&lock.totals, ROWS));
    if stacks {
        let waiting = details.by_stack.rows.first();
        lines.extend(waiting.map_or_else(Vec::new, |row| stack("most waited here:", row)));
        let held = details
            .by_holder
            .rows
            .iter()
            .find(|row| !row.names("frames").is_empty());
        lines.extend(held.map_or_else(Vec::new, |row| stack("mostly released here:", row)));
    }
    lines
}

fn patterns(lock: &LockEntry, details: &LockDetails) -> Vec<String> {
    let mut lines = named(lock, details);
    if details.patterns.contains(&"preempted holder") {
        let by = details.preempted_by.iter().take(ROWS).map(|by| {
            let share = percent(by.time_ns, details.preempted_ns);
            match (&by.thread, by.tid) {
                (Some(thread), Some(tid)) => format!("{} ({tid}) {share}", fit(thread, 20)),
                _ => format!("unknown, not recorded or idle {share}"),
            }
        });
        lines.extend(wrapped("instead ran:", &by.collect::<Vec<_>>(), ","));
    }
    for inversion in details.inversions.iter().take(ROWS) {
        let Inversion {
            waiter, holder, ran, ..
        } = inversion;
        lines.push(format!("{} waited {} for", ranked(waiter), duration(inversion.time_ns)));
        lines.push(format!("    {}, while {} ran", ranked(holder), ranked(ran)));
    }
    lines
}

/// A thread with its priority, as `chrt` and `nice` show it.
fn ranked(thread: &RankedThread) -> String {
    let priority = match thread.priority {
        ..0 => "deadline".to_owned(),
        real_time @ 0..100 => format!("real-time {}", 99 - real_time),
        other => format!("nice {}", other.saturating_sub(120)),
    };
    let name = thread.thread.as_deref().unwrap_or("unknown");
    format!("{} ({priority})", fit(name, 16))
}

fn named(lock: &LockEntry, details: &LockDetails) -> Vec<String> {
    let share = |time: u64| percent(time, lock.totals.blocked_ns);
    let pattern = |name: &&str| match *name {
        "convoy" => format!(
            "convoy: {} in a row at most, {} of the blocked time",
            counted(details.convoy.hand_overs, "hand-over"),
            share(details.convoy.blocked_ns)
        ),
        other => {
            let inverted = details.inversions.iter().map(|inversion| inversion.time_ns).sum();
            let time = if other == "priority inversion" {
                inverted
            } else {
                details.preempted_ns
            };
            format!("{other}: {} of the blocked time, {}", share(time), duration(time))
        }
    };
    details.patterns.iter().map(pattern).collect()
}

/// The functions in which it was released.
fn released(details: &LockDetails) -> Vec<String> {
    let known = details.by_release.rows.iter().filter_map(|row| {
        let function = fit(row.text("function")?, 40);
        Some(format!(
            "{function} {}",
            percent(row.tally.blocked_ns, details.held.blocked_ns)
        ))
    });
    wrapped("released in:", &known.take(ROWS).collect::<Vec<_>>(), ",")
}

fn stack<M>(title: &str, row: &GroupRow<M>) -> Vec<String> {
    let line = |frame: &String| format!("    {}", fit(&escaped(frame.as_bytes()), WIDTH - 4));
    let mut lines = vec![title.to_owned()];
    lines.extend(row.names("frames").iter().map(line));
    lines
}
