//! The values of a lock's holder, and the columns that show them.

use serde::Serialize;

use super::doing::Doing;
use super::holds::{Contention, Hold, Holder};
use crate::grid::{Column, Grid, Measure};
use crate::text::duration;

/// Sums over the holds of a lock. Times are those of all waiters together: a thread that has a lock for 1 ms while three
/// wait blocks them for 3 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct HolderTally {
    /// Time that others were blocked, in ns: the sum of the parts below.
    pub blocked_ns: u64,
    /// The part in which the holder was on a CPU.
    pub cpu_ns: u64,
    /// In which it was blocked in its own page faults.
    pub fault_ns: u64,
    /// In which it was blocked for its own disk I/O.
    pub disk_ns: u64,
    /// In which it waited for a CPU: preempted, or woken already.
    pub queue_ns: u64,
    /// In which it was blocked for something else.
    pub other_ns: u64,
    /// In which it had been woken to take the lock, and did not run yet.
    pub hand_over_ns: u64,
    /// In which it is unknown what the holder did, or which thread that was.
    pub unknown_ns: u64,
    /// Longest time in which it had the lock while others waited, in ns.
    pub longest_ns: u64,
}

impl HolderTally {
    /// Time of unknown holders.
    pub(super) fn unknown(blocked_ns: u64) -> Self {
        Self {
            blocked_ns,
            unknown_ns: blocked_ns,
            ..Self::default()
        }
    }

    /// A part of a hold; `doing` is what the holder did then, if known. `so_far`: the time of the hold with waiters, up to
    /// the end of this part, in ns.
    pub(super) fn of(hold: &Hold, part: &Contention, so_far: u64, doing: Option<Doing>) -> Self {
        let blocked_ns = part.blocked();
        let longest_ns = if hold.holder == Holder::Unknown { 0 } else { so_far };
        if hold.is_hand_over {
            return Self {
                blocked_ns,
                hand_over_ns: blocked_ns,
                ..Self::default()
            };
        }
        let Some(doing) = doing else {
            return Self {
                longest_ns,
                ..Self::unknown(blocked_ns)
            };
        };
        let each = |time: u64| time.saturating_mul(part.waiters);
        Self {
            blocked_ns,
            cpu_ns: each(doing.cpu),
            fault_ns: each(doing.fault),
            disk_ns: each(doing.disk),
            queue_ns: each(doing.queue),
            other_ns: each(doing.other),
            longest_ns,
            ..Self::default()
        }
    }
}

/// A duration, or nothing instead of 0.
fn part(time: u64) -> String {
    if time == 0 { String::new() } else { duration(time) }
}

impl Measure for HolderTally {
    const GRID: Grid<Self> = Grid {
        name: 24,
        gap: 0,
        columns: &[
            Column("blocked", 8, |row, _| duration(row.blocked_ns)),
            Column("CPU", 8, |row, _| part(row.cpu_ns)),
            Column("fault", 8, |row, _| part(row.fault_ns)),
            Column("disk", 8, |row, _| part(row.disk_ns)),
            Column("queue", 8, |row, _| part(row.queue_ns)),
            Column("other", 8, |row, _| part(row.other_ns)),
            Column("woken", 8, |row, _| part(row.hand_over_ns)),
        ],
    };

    fn merge(&mut self, more: &Self) {
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut self.blocked_ns, more.blocked_ns);
        add(&mut self.cpu_ns, more.cpu_ns);
        add(&mut self.fault_ns, more.fault_ns);
        add(&mut self.disk_ns, more.disk_ns);
        add(&mut self.queue_ns, more.queue_ns);
        add(&mut self.other_ns, more.other_ns);
        add(&mut self.hand_over_ns, more.hand_over_ns);
        add(&mut self.unknown_ns, more.unknown_ns);
        self.longest_ns = self.longest_ns.max(more.longest_ns);
    }

    fn rank(&self) -> (u64, u64) {
        (self.blocked_ns, self.longest_ns)
    }
}
