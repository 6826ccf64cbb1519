//! sample: CPU samples as a thread's `samples` table.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::NS_PER_MS;
use super::columns::{Column, Seq};
use super::shared::Shared;
use crate::addr::Timestamp;
use crate::fact::budget::KeptSample;
use crate::fact::{Location, StackId, Tables};

/// A thread's samples.
pub struct Samples<'a> {
    /// Times ascending.
    pub samples: &'a [KeptSample],
    /// Where stacks are.
    pub shared: &'a Shared<'a>,
    /// The profile's time 0.
    pub zero: Timestamp,
}

impl Serialize for Samples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.samples;
        let mut table = serializer.serialize_struct("samples", 6)?;
        table.serialize_field("length", &rows.len())?;
        table.serialize_field("weightType", "samples")?;
        let stack = |row: &KeptSample| row.stack.and_then(|stack| self.shared.stack_row(stack));
        table.serialize_field("stack", &Column(rows, stack))?;
        let deltas = rows.iter().scan(self.zero, |last, row| {
            let delta = row.time.since(*last);
            *last = row.time;
            // Exact to the nanosecond when read back: a delta is far below 2⁵³ ns.
            Some(delta.as_nanos() as f64 / NS_PER_MS)
        });
        table.serialize_field("timeDeltas", &Seq(deltas))?;
        if rows.iter().all(|row| row.weight == 1) {
            table.serialize_field("weight", &())?;
        } else {
            table.serialize_field("weight", &Column(rows, |row: &KeptSample| row.weight))?;
        }
        table.serialize_field("threadCPUDelta", &Column(rows, |row: &KeptSample| row.cpu_time))?;
        table.end()
    }
}

/// The samples whose `in_kernel` is not what their stack says (a kernel stack that could not be walked).
pub fn kernel_exceptions(tables: &Tables, samples: &[KeptSample]) -> Vec<usize> {
    let differs = |sample: &&KeptSample| sample.in_kernel != leaf_is_kernel(tables, sample.stack);
    samples
        .iter()
        .enumerate()
        .filter(|(_, sample)| differs(sample))
        .map(|(index, _)| index)
        .collect()
}

/// The innermost frame is the kernel's.
pub fn leaf_is_kernel(tables: &Tables, stack: Option<StackId>) -> bool {
    let node = stack.and_then(|stack| tables.stacks.get(stack.index()));
    let frame = node.and_then(|node| tables.frames.get(node.frame.index()));
    frame.is_some_and(|frame| matches!(frame.location, Location::Kernel { .. }))
}
