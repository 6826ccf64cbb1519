//! The values of a group of faults, and the columns that show them.

use std::time::Duration;

use serde::Serialize;

use crate::export::ns;
use crate::grid::{Column, Grid, Measure};
use crate::text::{count, duration, percent};
use fact::{FaultFact, Recording};

/// Sums over a group of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FaultTally {
    /// All faults, including failed ones.
    pub faults: u64,
    /// Faults that the kernel counts as major.
    pub major: u64,
    /// Faults that waited for a disk or for another thread's read.
    pub waited: u64,
    /// Failed faults.
    pub failed: u64,
    /// Sum of their latencies, in ns.
    pub time_ns: u64,
    /// Faults with an unknown latency, which `time_ns` does not include.
    pub untimed: u64,
    /// Faults that were counted, not recorded: another one represents each (`--faults auto`).
    pub represented: u64,
}

impl FaultTally {
    /// The values of a fault.
    pub(crate) fn of(fault: &FaultFact) -> Self {
        Self {
            faults: fault.count(),
            major: u64::from(fault.major),
            waited: u64::from(fault.waited()),
            failed: u64::from(fault.failed.is_some()),
            untimed: u64::from(fault.latency.is_none()),
            time_ns: ns(fault.total_time()),
            represented: u64::from(fault.others.count),
        }
    }
}

impl Measure for FaultTally {
    const GRID: Grid<Self> = Grid {
        name: 35,
        gap: 0,
        columns: &[
            Column("faults", 12, |row, _| count(row.faults)),
            Column("major", 8, |row, _| count(row.major)),
            Column("waited", 8, |row, _| count(row.waited)),
            Column("time", 9, time),
            Column("share", 8, share),
        ],
    };

    fn merge(&mut self, other: &Self) {
        self.faults += other.faults;
        self.major += other.major;
        self.waited += other.waited;
        self.failed += other.failed;
        self.untimed += other.untimed;
        self.represented = self.represented.saturating_add(other.represented);
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
    }

    /// The most time first, then the most faults.
    fn rank(&self) -> (u64, u64) {
        (self.time_ns, self.faults)
    }
}

/// The columns of faults together with those of callees, of which neither kind nor waits are known.
pub(super) const WITH_CALLEES: Grid<FaultTally> = Grid {
    name: 35,
    gap: 0,
    columns: &[
        Column("faults", 12, |row, _| count(row.faults)),
        Column("major", 8, |_, _| String::new()),
        Column("waited", 8, |_, _| String::new()),
        Column("time", 9, time),
        Column("share", 8, share),
    ],
};

fn time(row: &FaultTally, all: &FaultTally) -> String {
    if all.time_ns > 0 {
        duration(row.time_ns)
    } else {
        "-".to_owned()
    }
}

/// The share of the time if it is known, otherwise of the number of faults.
fn share(row: &FaultTally, all: &FaultTally) -> String {
    if all.time_ns > 0 {
        percent(row.time_ns, all.time_ns)
    } else {
        percent(row.faults, all.faults)
    }
}

/// Exact sums over the faults that the profile's budget aggregated, in the whole recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Folded {
    /// The number of faults.
    pub faults: u64,
    /// Faults that the kernel counts as major.
    pub major: u64,
    /// Sum of the known latencies, in ns.
    pub time_ns: u64,
    /// Pages that were read during these faults.
    pub pages_read: u64,
}

impl Folded {
    /// The sums of a recording.
    pub fn of(recording: &Recording) -> Self {
        recording.folded_faults.iter().fold(Self::default(), |sum, more| Self {
            faults: sum.faults.saturating_add(more.faults),
            major: sum.major.saturating_add(if more.major { more.faults } else { 0 }),
            time_ns: sum.time_ns.saturating_add(more.time),
            pages_read: sum.pages_read.saturating_add(more.pages_read),
        })
    }
}

/// How the time of faults divides, without faults of unknown latency. `None` if the part was not measured for any fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TimeParts {
    /// Waiting for the lock of the address space.
    pub lock_ns: Option<u64>,
    /// Waiting for reads that the faults started.
    pub disk_ns: Option<u64>,
    /// Waiting for reads that another thread started.
    pub other_read_ns: Option<u64>,
    /// Waiting for something else.
    pub blocked_ns: Option<u64>,
    /// Preempted by another thread.
    pub preempted_ns: Option<u64>,
    /// The remaining time, in which the kernel worked.
    pub rest_ns: u64,
    /// Reclaim and compaction, which overlap the other parts.
    pub reclaim_ns: Option<u64>,
}

impl TimeParts {
    /// Counts a fault.
    pub fn add(&mut self, fault: &FaultFact) {
        let Some(latency) = fault.latency else { return };
        let waits = &fault.waits;
        let mut rest = ns(latency);
        for (sum, part) in [
            (&mut self.lock_ns, waits.lock),
            (&mut self.disk_ns, waits.disk),
            (&mut self.other_read_ns, waits.other_read),
            (&mut self.blocked_ns, waits.blocked),
            (&mut self.preempted_ns, waits.preempted),
        ] {
            rest = rest.saturating_sub(part.map_or(0, ns));
            add(sum, part);
        }
        add(&mut self.reclaim_ns, waits.reclaim);
        // Faults that are represented by another one did not wait.
        let rest = rest.saturating_add(ns(fault.others.time));
        self.rest_ns = self.rest_ns.saturating_add(rest);
    }
}

fn add(sum: &mut Option<u64>, part: Option<Duration>) {
    if let Some(part) = part {
        *sum = Some(sum.unwrap_or(0).saturating_add(ns(part)));
    }
}
