//! Exact sums of all page faults, whatever the budget leaves of them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::addr::{Timestamp, ns};
use crate::fact::{FaultFact, MappedFileId, ProcessId, Tables};

/// Shortest step of a rate, in ns.
const SHORTEST_STEP: u64 = 10_000_000;
/// Steps of one process at most: two for each pixel of a wide screen.
const STEPS: usize = 4_000;

/// Sums over all page faults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultTotals {
    /// How many, failed ones apart.
    pub faults: u64,
    /// The kernel counts them as major.
    pub major: u64,
    /// They waited for a disk or for somebody else's read.
    pub waited: u64,
    /// How long, in ns.
    pub waited_time: u64,
    /// Faults of which it is known whether they waited.
    pub waits_known: u64,
    /// They failed.
    pub failed: u64,
    /// Sum of the known latencies, in ns.
    pub time: u64,
    /// Faults by file.
    pub by_file: FxHashMap<MappedFileId, u64>,
    /// When they happened.
    pub rates: BTreeMap<ProcessId, FaultRate>,
}

/// A process's faults by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRate {
    /// Length of a step, in ns.
    pub step: u64,
    /// Step number since time 0 of the clock → faults, and those that waited; only steps that have any.
    pub steps: BTreeMap<u64, (u64, u64)>,
}

impl Default for FaultRate {
    fn default() -> Self {
        Self {
            step: SHORTEST_STEP,
            steps: BTreeMap::new(),
        }
    }
}

impl FaultRate {
    /// Counts one. The result does not depend on the order of calls.
    fn add(&mut self, time: Timestamp, waited: bool) {
        let (faults, waits) = self.steps.entry(time.0 / self.step).or_default();
        *faults += 1;
        *waits += u64::from(waited);
        while self.steps.len() > STEPS {
            self.step = self.step.saturating_mul(2);
            for (step, (faults, waits)) in std::mem::take(&mut self.steps) {
                let sum = self.steps.entry(step / 2).or_default();
                *sum = (sum.0 + faults, sum.1 + waits);
            }
        }
    }
}

impl FaultTotals {
    /// Counts one.
    pub fn add(&mut self, tables: &Tables, fault: &FaultFact) {
        self.time = self.time.saturating_add(ns(fault.time()));
        if fault.failed.is_some() {
            self.failed += 1;
            return;
        }
        let waits = [fault.waits.disk, fault.waits.other_read];
        let waited = fault.waited();
        self.faults += 1;
        self.major += u64::from(fault.major);
        self.waited += u64::from(waited);
        self.waits_known += u64::from(waits.iter().any(Option::is_some));
        let waited_time = waits.into_iter().flatten().map(ns);
        self.waited_time = waited_time.fold(self.waited_time, u64::saturating_add);
        if let Some(place) = fault.place {
            *self.by_file.entry(place.file).or_default() += 1;
        }
        if let Some(thread) = tables.threads.get(fault.thread.index()) {
            self.rates.entry(thread.process).or_default().add(fault.start, waited);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_keeps_its_sum_and_does_not_depend_on_the_order() {
        let times: Vec<u64> = (0..10_000).map(|i| i * 7_777_777).collect();
        let (mut forward, mut backward) = (FaultRate::default(), FaultRate::default());
        for time in &times {
            forward.add(Timestamp(*time), time % 2 == 0);
        }
        for time in times.iter().rev() {
            backward.add(Timestamp(*time), time % 2 == 0);
        }
        assert_eq!(forward, backward);
        assert!(forward.steps.len() <= STEPS && forward.step == 2 * SHORTEST_STEP);
        let sum = forward
            .steps
            .values()
            .fold((0, 0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
        assert_eq!(sum, (10_000, 5_000));
    }
}
