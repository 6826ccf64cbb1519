//! Sums over faults, and groups of them in the order of tables.

use std::time::Duration;

use serde::Serialize;

use crate::fact::{FaultFact, Recording};
use crate::report::export::ns;
use crate::report::groups::{self, Ranked};

/// What a group of faults amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// How many, failed ones too.
    pub faults: u64,
    /// As the kernel counts them.
    pub major: u64,
    /// Waited for a disk, or for somebody else's read.
    pub waited: u64,
    /// Failed.
    pub failed: u64,
    /// Sum of the latencies, in ns.
    pub time_ns: u64,
    /// Faults whose latency is unknown: they are not in the time.
    pub untimed: u64,
}

impl Tally {
    /// Counts a fault.
    pub fn add(&mut self, fault: &FaultFact) {
        self.faults += 1;
        self.major += u64::from(fault.major);
        self.waited += u64::from(fault.waited());
        self.failed += u64::from(fault.failed.is_some());
        self.untimed += u64::from(fault.latency.is_none());
        self.time_ns = self.time_ns.saturating_add(ns(fault.time()));
    }

    /// Adds another group.
    pub fn merge(&mut self, other: &Self) {
        self.faults += other.faults;
        self.major += other.major;
        self.waited += other.waited;
        self.failed += other.failed;
        self.untimed += other.untimed;
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
    }
}

/// Faults that the profile had no room for one by one, in the whole recording; exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Folded {
    /// How many.
    pub faults: u64,
    /// As the kernel counts them.
    pub major: u64,
    /// Sum of the known latencies, in ns.
    pub time_ns: u64,
    /// Pages that were read meanwhile.
    pub pages_read: u64,
}

impl Folded {
    /// All of a recording.
    pub fn of(recording: &Recording) -> Self {
        recording.folded_faults.iter().fold(Self::default(), |sum, more| Self {
            faults: sum.faults.saturating_add(more.faults),
            major: sum.major.saturating_add(if more.major { more.faults } else { 0 }),
            time_ns: sum.time_ns.saturating_add(more.time),
            pages_read: sum.pages_read.saturating_add(more.pages_read),
        })
    }
}

/// Where the time of faults went. `None`: no fault could tell. Of faults without a latency nothing is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TimeParts {
    /// For the lock of the address space.
    pub lock_ns: Option<u64>,
    /// For reads that they started.
    pub disk_ns: Option<u64>,
    /// For reads of somebody else.
    pub other_read_ns: Option<u64>,
    /// For something else.
    pub blocked_ns: Option<u64>,
    /// Another thread had the CPU.
    pub preempted_ns: Option<u64>,
    /// All the rest: the kernel at work.
    pub rest_ns: u64,
    /// Reclaim and compaction; lies within the others.
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
        self.rest_ns = self.rest_ns.saturating_add(rest);
    }
}

fn add(sum: &mut Option<u64>, part: Option<Duration>) {
    if let Some(part) = part {
        *sum = Some(sum.unwrap_or(0).saturating_add(ns(part)));
    }
}

impl Ranked for Tally {
    /// Those with the most time, then those with the most faults.
    fn rank(&self) -> (u64, u64) {
        (self.time_ns, self.faults)
    }
}

/// By a key.
pub type Groups<K> = groups::Groups<K, Tally>;
