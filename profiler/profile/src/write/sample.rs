//! CPU samples as a thread's `samples` table.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::shared::Shared;
use crate::shared::columns::{Seq, deltas};
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

/// A thread's `samples` table.
pub struct Samples<'a> {
    /// The rows.
    pub rows: SampleRows<'a>,
    /// The tables with the stacks.
    pub shared: &'a Shared<'a>,
    /// The profile's time 0.
    pub zero: Timestamp,
}

impl Serialize for Samples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = &self.rows;
        let mut table = serializer.serialize_struct("samples", 6)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("weightType", "samples")?;
        let stack = |row: &KeptSample| self.shared.stack_row(row.stack);
        table.serialize_field("stack", &Seq(rows.iter().map(stack)))?;
        let times = rows.iter().map(|row| row.time);
        table.serialize_field("timeDeltas", &deltas(times, self.zero))?;
        if rows.iter().all(|row| row.weight == 1) {
            table.serialize_field("weight", &())?;
        } else {
            table.serialize_field("weight", &Seq(rows.iter().map(|row| row.weight)))?;
        }
        table.serialize_field("threadCPUDelta", &Seq(rows.iter().map(|row| row.cpu_time)))?;
        table.end()
    }
}
