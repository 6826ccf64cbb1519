//! Sums over waits, grouped and ranked for tables, and distributions of their durations.

use serde::{Serialize, Serializer};

use crate::export::ns;
use crate::groups::{self, Ranked};
use fact::{WaitFact, WaitReason};

/// Sums of a group of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
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

impl Tally {
    /// Counts a row of one or several waits.
    pub fn add(&mut self, wait: &WaitFact) {
        self.merge(&Self {
            waits: u64::from(wait.count),
            off_ns: ns(wait.off),
            blocked_ns: ns(wait.off.saturating_sub(wait.for_cpu())),
            queued_ns: ns(wait.for_cpu()),
            longest_ns: ns(wait.longest),
        });
    }

    /// Adds the sums of another group.
    pub fn merge(&mut self, other: &Self) {
        self.waits = self.waits.saturating_add(other.waits);
        self.off_ns = self.off_ns.saturating_add(other.off_ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
        self.queued_ns = self.queued_ns.saturating_add(other.queued_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

impl Ranked for Tally {
    /// Longest blocked time first: time spent waiting for a CPU is not caused by the reason of the wait.
    fn rank(&self) -> (u64, u64) {
        (self.blocked_ns, self.off_ns)
    }
}

/// Tallies by key.
pub type Groups<K> = groups::Groups<K, Tally>;

/// Durations of waits by powers of two: bucket i holds those from 2^i ns to below 2^(i+1), the first also shorter ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram([u64; Self::BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; Self::BUCKETS])
    }
}

impl Histogram {
    /// Number of buckets: up to half a year.
    const BUCKETS: usize = 54;

    /// Counts a wait by its duration, without the time in the run queue unless that is the reason. A row of several waits counts as
    /// that many waits of average duration.
    pub fn add(&mut self, wait: &WaitFact) {
        let time = match wait.reason {
            WaitReason::RunQueue => wait.off,
            _ => wait.blocked(),
        };
        let each = ns(time) / u64::from(wait.count.max(1));
        let bucket = usize::try_from(each.max(1).ilog2()).unwrap_or(0).min(Self::BUCKETS - 1);
        self.0[bucket] = self.0[bucket].saturating_add(u64::from(wait.count));
    }

    /// Buckets from 2^`low` ns to below 2^`high`; the first and last include all shorter and longer waits.
    pub fn range(&self, low: usize, high: usize) -> Vec<u64> {
        let (low, high) = (low.min(Self::BUCKETS - 1), high.min(Self::BUCKETS));
        let mut buckets = self.0[low..high].to_vec();
        let sum = |part: &[u64]| part.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        if let Some(first) = buckets.first_mut() {
            *first = first.saturating_add(sum(&self.0[..low]));
        }
        if let Some(last) = buckets.last_mut() {
            *last = last.saturating_add(sum(&self.0[high..]));
        }
        buckets
    }
}

/// Serializes the buckets that are not empty.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Bucket {
            from_ns: u64,
            waits: u64,
        }
        let buckets = self.0.iter().enumerate().filter(|(_, waits)| **waits > 0);
        serializer.collect_seq(buckets.map(|(bucket, waits)| Bucket {
            from_ns: if bucket == 0 { 0 } else { 1 << bucket },
            waits: *waits,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use base::addr::Timestamp;
    use fact::ThreadId;
    use fact::wait::Coverage;

    fn wait(off: u64, count: u32) -> WaitFact {
        WaitFact {
            start: Timestamp(0),
            end: Timestamp(off),
            thread: ThreadId(0),
            stack: None,
            off: Duration::from_nanos(off),
            queued: Duration::ZERO,
            longest: Duration::from_nanos(off),
            count,
            reason: WaitReason::Sleep,
            call: None,
            waker: None,
            coverage: Coverage::Full,
            in_fault: false,
        }
    }

    #[test]
    fn lengths_fall_into_powers_of_two() {
        let mut lengths = Histogram::default();
        for (off, count) in [
            (0, 1),
            (1, 1),
            (1023, 1),
            (1024, 1),
            (2047, 2),
            (10_000, 5),
            (u64::MAX, 1),
        ] {
            lengths.add(&wait(off, count));
        }
        let text = serde_json::to_string(&lengths).unwrap();
        assert_eq!(
            text,
            r#"[{"from_ns":0,"waits":2},{"from_ns":512,"waits":3},{"from_ns":1024,"waits":6},{"from_ns":9007199254740992,"waits":1}]"#
        );
        assert_eq!(lengths.range(9, 12), [5, 6, 1]);
        assert_eq!(lengths.range(10, 54).iter().sum::<u64>(), 12);
    }

    /// As on a busy machine: the disk responds quickly, but no CPU is free.
    #[test]
    fn a_disk_is_not_blamed_for_the_run_queue() {
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
        let (mut groups, mut parts) = (Groups::default(), Vec::new());
        let mut lengths = Histogram::default();
        for wait in &waits {
            groups.of(wait.reason).add(wait);
            parts.extend(wait.parts().map(|(reason, time)| (reason, time.as_nanos())));
            lengths.add(wait);
        }
        let rows: Vec<_> = groups.sorted().into_iter().collect();
        let figures = rows
            .iter()
            .map(|(_, tally)| (tally.off_ns, tally.blocked_ns, tally.queued_ns));
        assert_eq!(
            figures.collect::<Vec<_>>(),
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
