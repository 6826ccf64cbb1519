//! Export with one row per time in which a thread had a lock that others waited for, as CSV and newline-delimited JSON
//! with the same columns.

use super::doing::Timelines;
use super::holds::{Contention, Hold, Holder};
use super::identity::LockName;
use super::tally::HolderTally;
use super::view::LockView;
use crate::export::{Cell, columns};
use crate::functions::outermost_first;
use crate::grid::Measure as _;
use crate::lookup::Lookup as _;
use fact::{Process, ThreadId};

/// A hold, as its row has it.
#[derive(Debug, Clone, Copy)]
pub struct HoldRow {
    /// Place of the lock in [`LockView::locks`].
    lock: usize,
    hold: Hold,
    /// From the first to the last moment at which a thread waited.
    contended: Contention,
    tally: HolderTally,
}

/// A hold and what it refers to.
struct NamedRow<'r> {
    view: &'r LockView<'r, 'r>,
    row: &'r HoldRow,
    name: Option<&'r LockName>,
    process: Option<&'r Process>,
    holder: Option<ThreadId>,
}

columns! {
    fn cells<'r>(named: &NamedRow<'r>);
    "time_ns": Number = named.view.view.tables.time_ns(named.row.contended.start);
    "end_ns": Number = named.view.view.tables.time_ns(named.row.contended.end);
    "lock": Text = named.name.map(|name| name.text.as_str());
    "kind": Text = named.name.map(|name| name.kind);
    "pid": Number = named.process.map(|process| process.pid);
    "process": Text = named.process.map(|process| process.name.as_str());
    "address": Text = named.name.and_then(|name| name.address).map(|address| format!("{address:#x}"));
    "file": Text = named.name.and_then(|name| name.file.as_deref());
    "offset": Id = named.name.and_then(|name| name.offset);
    "holder_pid": Number = named.holder.and_then(|id| named.view.view.tables.process(id)).map(|process| process.pid);
    "holder_tid": Number = named.tid();
    "holder": Text = named.holder.and_then(|id| named.view.view.tables.thread(id)).map(|thread| thread.name.as_str());
    "function": Text = named.view.view.function_name(named.row.hold.stack);
    "stack": Text = named.row.hold.stack.map(|stack| outermost_first(named.view.view.tables, stack));
    "waiters": Number = named.row.contended.waiters;
    "blocked_ns": Number = named.row.tally.blocked_ns;
    "cpu_ns": Number = named.row.tally.cpu_ns;
    "fault_ns": Number = named.row.tally.fault_ns;
    "disk_ns": Number = named.row.tally.disk_ns;
    "queue_ns": Number = named.row.tally.queue_ns;
    "other_ns": Number = named.row.tally.other_ns;
    "hand_over_ns": Number = named.row.tally.hand_over_ns;
    "unknown_ns": Number = named.row.tally.unknown_ns;
    "number": Id = named.name.and_then(|name| name.number);
    "symbol": Text = named.name.and_then(|name| name.symbol.as_deref());
}

impl NamedRow<'_> {
    fn tid(&self) -> Option<u32> {
        match self.row.hold.holder {
            Holder::Thread(id) => self.view.view.tables.thread(id).map(|thread| thread.tid),
            Holder::Unrecorded(tid) => Some(tid),
            Holder::Unknown => None,
        }
    }
}

/// Turns holds into rows.
#[derive(Debug)]
pub struct Exporter<'v> {
    view: &'v LockView<'v, 'v>,
}

impl<'v> Exporter<'v> {
    /// Exports the holds of a view.
    pub fn new(view: &'v LockView<'v, 'v>) -> Self {
        Self { view }
    }

    /// The holds of all locks, by time.
    pub fn rows(&self) -> Vec<HoldRow> {
        let mut rows: Vec<HoldRow> = Vec::new();
        let mut timelines = Timelines::new(&self.view.lanes);
        for (lock, contended) in self.view.locks.iter().enumerate() {
            self.view
                .each_hold(contended, &mut timelines, |hold, part, tally| match rows.last_mut() {
                    Some(last) if last.lock == lock && last.hold == *hold => {
                        last.contended.end = part.end;
                        last.contended.waiters = last.contended.waiters.max(part.waiters);
                        last.tally.merge(&tally);
                    }
                    _ => rows.push(HoldRow {
                        lock,
                        hold: *hold,
                        contended: *part,
                        tally,
                    }),
                });
        }
        rows.sort_by_key(|row| (row.contended.start, row.lock));
        rows
    }

    /// The cells of a row, in the order of [`COLUMNS`].
    pub fn row<'r>(&'r self, row: &'r HoldRow) -> [Cell<'r>; COLUMNS.len()] {
        let name = self.view.locks.get(row.lock).map(|lock| &lock.name);
        let process = name.and_then(|name| self.view.view.tables.processes.get(name.process?.index()));
        cells(&NamedRow {
            view: self.view,
            row,
            name,
            process,
            holder: match row.hold.holder {
                Holder::Thread(id) => Some(id),
                _ => None,
            },
        })
    }
}
