//! Collects the facts that a report on locks needs: all waits, and every thread's time as a lane.

use std::sync::Arc;

use crate::path::PathFacts;
use crate::sorted::Scratch;
use crate::waits::Facts;
use fact::{EventKind, FactSink, Mark, SampleFact, Tables, WaitFact};

/// Facts of a recording.
#[derive(Debug, Default)]
pub struct LockFacts {
    /// All waits.
    pub waits: Facts,
    /// When each thread was off CPUs.
    pub lanes: PathFacts,
}

impl LockFacts {
    /// Keeps the waits in memory up to a limit and the rest in `scratch`.
    pub fn beyond_memory(scratch: &Arc<dyn Scratch>) -> Self {
        Self {
            waits: Facts::beyond_memory(scratch),
            lanes: PathFacts::default(),
        }
    }
}

impl FactSink for LockFacts {
    fn wants_stacks(&self, kind: EventKind) -> bool {
        kind == EventKind::Wait
    }

    fn sample(&mut self, _: &Tables, _: &SampleFact) {}

    fn mark(&mut self, _: &Tables, _: &Mark) {}

    fn wait(&mut self, tables: &Tables, wait: &WaitFact) {
        self.waits.wait(tables, wait);
        self.lanes.wait(tables, wait);
    }
}
