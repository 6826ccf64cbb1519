//! CPU samples as a thread's `samples` table.

use serde::Serialize;

use crate::shared::Shared;
use crate::shared::columns::{Seq, deltas, object};
use base::addr::Timestamp;
use fact::Thread;
use fact::reduce::budget::KeptSample;

/// A thread's samples as the front end needs them.
///
/// The front end ignores the CPU time of a thread's first row, whose interval has no start, and
/// nothing after the last row is counted. So a row without a stack is added at the thread's start,
/// and another one at its end if it ran after its last sample: neither is in a call tree, and the
/// CPU times add up.
#[derive(Debug, Clone, Copy)]
pub struct SampleRows<'a> {
    /// The thread's start, if it is before its first sample.
    pub lead: Option<KeptSample>,
    /// Times ascending.
    pub samples: &'a [KeptSample],
    /// The thread's end, if it ran after its last sample.
    pub trail: Option<KeptSample>,
}

impl<'a> SampleRows<'a> {
    /// Selects the rows of a thread within the profile's time range.
    pub fn new(thread: &Thread, samples: &'a [KeptSample], (zero, end): (Timestamp, Timestamp)) -> Self {
        let edge = |time, cpu_time| KeptSample {
            time,
            cpu_time,
            stack: None,
            weight: 1,
            in_kernel: false,
        };
        let start = thread.start.clamp(zero, end);
        let stop = thread.end.unwrap_or(end).clamp(zero, end);
        let ran_on = thread.cpu_time_after_last_sample;
        let last = samples.last().map_or(start, |sample| sample.time);
        let trail = (ran_on > 0 && stop > last).then(|| edge(stop, ran_on));
        let first = samples.first().or(trail.as_ref()).map_or(start, |sample| sample.time);
        Self {
            lead: (start < first).then(|| edge(start, 0)),
            samples,
            trail,
        }
    }

    /// All rows, times ascending.
    pub fn iter(&self) -> impl Iterator<Item = &KeptSample> + Clone {
        self.lead.iter().chain(self.samples).chain(&self.trail)
    }

    fn len(&self) -> usize {
        self.samples.len() + usize::from(self.lead.is_some()) + usize::from(self.trail.is_some())
    }

    /// On-CPU time of all rows, in ns.
    pub fn cpu_time(&self) -> u64 {
        self.iter().fold(0, |sum, row| sum.saturating_add(row.cpu_time))
    }
}

/// A thread's `samples` table: stacks are in the shared tables, and times are relative to the profile's time 0.
pub fn table(rows: &SampleRows<'_>, shared: &Shared<'_>, zero: Timestamp) -> impl Serialize {
    let all = rows.iter();
    let is_weighted = all.clone().any(|row| row.weight != 1);
    object! {
        "length": rows.len(),
        "weightType": "samples",
        "stack": Seq(all.clone().map(|row| shared.stack_row(row.stack))),
        "timeDeltas": deltas(all.clone().map(|row| row.time), zero),
        "weight": is_weighted.then(|| Seq(all.clone().map(|row| row.weight))),
        "threadCPUDelta": Seq(all.map(|row| row.cpu_time)),
    }
}
