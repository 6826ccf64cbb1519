//! Distribution of the durations of waits.

use serde::{Serialize, Serializer};

use super::export::ns;
use fact::{WaitFact, WaitReason};

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
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use base::addr::Timestamp;
    use fact::ThreadId;
    use fact::wait::Coverage;

    pub(crate) fn wait(off: u64, count: u32) -> WaitFact {
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
            cpu: None,
            futex: None,
            lock: None,
            priority: None,
        }
    }

    #[test]
    fn durations_are_grouped_by_powers_of_two() {
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
}
