//! Packed CPU samples, which are kept until names are known.

use std::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::sorted::Row;
use base::addr::{Timestamp, ns};
use fact::{SampleFact, StackId, ThreadId};

/// Marks a sample without a stack.
const NONE: u32 = u32::MAX;

/// A CPU sample in 32 bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct PackedSample {
    time: u64,
    cpu_ns: u64,
    thread: u32,
    stack: u32,
    weight: u32,
    in_kernel: u32,
}

impl Row for PackedSample {
    fn key(&self) -> u64 {
        self.time
    }
}

impl From<&SampleFact> for PackedSample {
    fn from(sample: &SampleFact) -> Self {
        Self {
            time: sample.time.0,
            cpu_ns: ns(sample.cpu_time),
            thread: sample.thread.0,
            stack: sample.stack.map_or(NONE, StackId::number),
            weight: sample.weight,
            in_kernel: sample.in_kernel.into(),
        }
    }
}

impl From<PackedSample> for SampleFact {
    fn from(sample: PackedSample) -> Self {
        Self {
            time: Timestamp(sample.time),
            thread: ThreadId(sample.thread),
            stack: (sample.stack != NONE).then_some(StackId::new(sample.stack)),
            cpu_time: Duration::from_nanos(sample.cpu_ns),
            in_kernel: sample.in_kernel != 0,
            weight: sample.weight,
        }
    }
}
