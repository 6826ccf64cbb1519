//! The values of a group of waits, and the columns that show them.

use serde::Serialize;

use crate::export::ns;
use crate::grid::{Column, Grid, Measure};
use crate::text::{count, duration, percent};
use fact::WaitFact;

/// Sums of a group of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WaitTally {
    /// Number of waits.
    pub waits: u64,
    /// Off-CPU time, in ns.
    pub off_ns: u64,
    /// Part of the off-CPU time in which threads waited for something other than a CPU, in ns.
    pub blocked_ns: u64,
    /// Rest of the off-CPU time, in which threads were runnable, in ns.
    pub queued_ns: u64,
    /// Longest wait, in ns.
    pub longest_ns: u64,
}

impl WaitTally {
    /// The values of a row of one or several waits.
    pub(crate) fn of(wait: &WaitFact) -> Self {
        Self {
            waits: u64::from(wait.count),
            off_ns: ns(wait.off),
            blocked_ns: ns(wait.off.saturating_sub(wait.for_cpu())),
            queued_ns: ns(wait.for_cpu()),
            longest_ns: ns(wait.longest),
        }
    }
}

impl Measure for WaitTally {
    const GRID: Grid<Self> = Grid {
        name: 34,
        gap: 0,
        columns: &[
            Column("waits", 12, |row, _| count(row.waits)),
            Column("blocked", 9, |row, _| duration(row.blocked_ns)),
            Column("queue", 8, |row, _| duration(row.queued_ns)),
            Column("longest", 9, |row, _| duration(row.longest_ns)),
            Column("share", 8, |row, all| percent(row.blocked_ns, all.blocked_ns)),
        ],
    };

    fn merge(&mut self, other: &Self) {
        self.waits = self.waits.saturating_add(other.waits);
        self.off_ns = self.off_ns.saturating_add(other.off_ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
        self.queued_ns = self.queued_ns.saturating_add(other.queued_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Longest blocked time first: time spent waiting for a CPU is not caused by the reason of the wait.
    fn rank(&self) -> (u64, u64) {
        (self.blocked_ns, self.off_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::histogram::Histogram;
    use crate::histogram::tests::wait;
    use fact::WaitReason;

    /// As on a busy machine: the disk responds quickly, but no CPU is free.
    #[test]
    fn run_queue_time_is_not_disk_time() {
        let of = |reason, off, queued| WaitFact {
            reason,
            queued: Duration::from_nanos(queued),
            ..wait(off, 1)
        };
        let waits = [
            of(WaitReason::Disk, 6600, 6000),
            of(WaitReason::Lock, 900, 100),
            of(WaitReason::RunQueue, 5000, 4000),
        ];
        let (mut tallies, mut parts) = (Vec::new(), Vec::new());
        let mut lengths = Histogram::default();
        for wait in &waits {
            tallies.push(WaitTally::of(wait));
            parts.extend(wait.parts().map(|(reason, time)| (reason, time.as_nanos())));
            lengths.add(wait);
        }
        tallies.sort_by_key(|tally| std::cmp::Reverse(tally.rank()));
        let numbers = tallies
            .iter()
            .map(|tally| (tally.off_ns, tally.blocked_ns, tally.queued_ns));
        assert_eq!(
            numbers.collect::<Vec<_>>(),
            [(900, 800, 100), (6600, 600, 6000), (5000, 0, 5000)]
        );
        let queue = WaitReason::RunQueue;
        assert_eq!(
            parts,
            [
                (WaitReason::Disk, 600),
                (queue, 6000),
                (WaitReason::Lock, 800),
                (queue, 100),
                (queue, 5000)
            ]
        );
        assert_eq!(lengths.range(9, 13), [2, 0, 0, 1]);
    }
}
