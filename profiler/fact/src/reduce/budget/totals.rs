//! Exact sums of all page faults, however few the budget keeps.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::{FaultFact, MappedFileId, ProcessId, Tables};
use base::addr::{Timestamp, ns};

/// Shortest step of a rate, in ns.
const SHORTEST_STEP: u64 = 10_000_000;
/// Maximum number of steps per process: two for each pixel of a wide screen.
const STEPS: usize = 4_000;
/// Maximum number of steps of all processes: some 25 MB.
const ALL_STEPS: usize = 1 << 19;

/// Sums over all page faults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultTotals {
    /// Number of faults, not counting failed ones.
    pub faults: u64,
    /// Faults that the kernel counts as major.
    pub major: u64,
    /// Faults that waited for a disk or for another thread's read.
    pub waited: u64,
    /// How long they waited, in ns.
    pub waited_time: u64,
    /// Faults known to have waited or not.
    pub waits_known: u64,
    /// Faults that were counted, not recorded: another one represents each.
    pub represented: u64,
    /// Failed faults.
    pub failed: u64,
    /// Sum of the known latencies, in ns.
    pub time: u64,
    /// Faults by file.
    pub by_file: FxHashMap<MappedFileId, u64>,
    /// Faults over time.
    pub rates: FaultRates,
}

/// A process's faults over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRate {
    /// Length of a step, in ns.
    pub step: u64,
    /// Step number since time 0 of the clock → faults, and those that waited; only steps that have any.
    pub steps: BTreeMap<u64, (u64, u64)>,
}

impl FaultRate {
    fn new(step: u64) -> Self {
        Self {
            step,
            steps: BTreeMap::new(),
        }
    }

    /// Counts a fault that represents `faults`. The result does not depend on the order of calls.
    fn add(&mut self, time: Timestamp, faults: u64, waited: bool) {
        self.count(time.0 / self.step, (faults, u64::from(waited)));
        self.fit();
    }

    fn count(&mut self, step: u64, (faults, waits): (u64, u64)) {
        let sum = self.steps.entry(step).or_default();
        *sum = (sum.0.saturating_add(faults), sum.1.saturating_add(waits));
    }

    fn fit(&mut self) {
        while self.steps.len() > STEPS {
            self.double();
        }
    }

    /// Adds a rate with steps of the same length.
    fn join(&mut self, other: Self) {
        for (step, counts) in other.steps {
            self.count(step, counts);
        }
        self.fit();
    }

    fn double(&mut self) {
        self.step = self.step.saturating_mul(2);
        for (step, counts) in std::mem::take(&mut self.steps) {
            self.count(step / 2, counts);
        }
    }
}

/// Faults of all processes over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRates {
    by_process: FxHashMap<ProcessId, FaultRate>,
    /// Length of the shortest step, in ns.
    shortest: u64,
    /// Number of steps of all processes.
    steps: usize,
}

impl Default for FaultRates {
    fn default() -> Self {
        Self {
            by_process: FxHashMap::default(),
            shortest: SHORTEST_STEP,
            steps: 0,
        }
    }
}

impl FaultRates {
    /// Rate of a process; `None` if it had no fault.
    pub fn of(&self, process: ProcessId) -> Option<&FaultRate> {
        self.by_process.get(&process)
    }

    /// Rates of all processes that had faults.
    pub fn all(&self) -> impl Iterator<Item = &FaultRate> {
        self.by_process.values()
    }

    /// Adds up the rates of processes that get the same new number.
    pub fn join(&mut self, renumber: impl Fn(ProcessId) -> ProcessId) {
        let mut joined: FxHashMap<ProcessId, FaultRate> = FxHashMap::default();
        for (process, mut rate) in std::mem::take(&mut self.by_process) {
            match joined.entry(renumber(process)) {
                Entry::Vacant(vacant) => {
                    vacant.insert(rate);
                }
                Entry::Occupied(mut sum) => {
                    let sum = sum.get_mut();
                    while sum.step < rate.step {
                        sum.double();
                    }
                    while rate.step < sum.step {
                        rate.double();
                    }
                    sum.join(rate);
                }
            }
        }
        self.by_process = joined;
        self.steps = self.all().map(|rate| rate.steps.len()).sum();
    }

    /// Counts a fault. If there would be more than `most` steps, all of them become longer.
    fn add(&mut self, process: ProcessId, time: Timestamp, (faults, waited): (u64, bool), most: usize) {
        let rate = self.by_process.entry(process);
        let rate = rate.or_insert_with(|| FaultRate::new(self.shortest));
        self.steps -= rate.steps.len();
        rate.add(time, faults, waited);
        self.steps += rate.steps.len();
        // A process has at least one step.
        while self.steps > most.max(self.by_process.len()) {
            self.shortest = self.shortest.saturating_mul(2);
            let shorter = self.by_process.values_mut().filter(|rate| rate.step < self.shortest);
            shorter.for_each(FaultRate::double);
            self.steps = self.all().map(|rate| rate.steps.len()).sum();
        }
    }
}

impl FaultTotals {
    /// Counts a fault.
    pub fn add(&mut self, tables: &Tables, fault: &FaultFact) {
        self.time = self.time.saturating_add(ns(fault.total_time()));
        if fault.failed.is_some() {
            self.failed += 1;
            return;
        }
        let waits = [fault.waits.disk, fault.waits.other_read];
        let waited = fault.waited();
        self.faults = self.faults.saturating_add(fault.count());
        self.represented = self.represented.saturating_add(u64::from(fault.others.count));
        self.major += u64::from(fault.major);
        self.waited += u64::from(waited);
        self.waits_known += u64::from(waits.iter().any(Option::is_some));
        let waited_time = waits.into_iter().flatten().map(ns);
        self.waited_time = waited_time.fold(self.waited_time, u64::saturating_add);
        if let Some(place) = fault.place {
            *self.by_file.entry(place.file).or_default() += 1;
        }
        if let Some(thread) = tables.threads.get(fault.thread.index()) {
            self.rates
                .add(thread.process, fault.start, (fault.count(), waited), ALL_STEPS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_keeps_its_sum_and_does_not_depend_on_the_order() {
        let times: Vec<u64> = (0..10_000).map(|i| i * 7_777_777).collect();
        let (mut forward, mut backward) = (FaultRate::new(SHORTEST_STEP), FaultRate::new(SHORTEST_STEP));
        for time in &times {
            forward.add(Timestamp(*time), 1, time % 2 == 0);
        }
        for time in times.iter().rev() {
            backward.add(Timestamp(*time), 1, time % 2 == 0);
        }
        assert_eq!(forward, backward);
        assert!(forward.steps.len() <= STEPS && forward.step == 2 * SHORTEST_STEP);
        let sum = forward
            .steps
            .values()
            .fold((0, 0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
        assert_eq!(sum, (10_000, 5_000));
    }

    #[test]
    fn many_processes_share_the_steps() {
        let mut rates = FaultRates::default();
        for time in 0..100 {
            for process in 0..50 {
                rates.add(
                    ProcessId(process),
                    Timestamp(time * SHORTEST_STEP),
                    (1, time % 2 == 0),
                    1000,
                );
            }
        }
        assert_eq!((rates.shortest, rates.steps), (8 * SHORTEST_STEP, 50 * 13));
        for rate in rates.all() {
            let sum = rate
                .steps
                .values()
                .fold((0, 0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
            assert_eq!((rate.step, rate.steps.len(), sum), (rates.shortest, 13, (100, 50)));
        }
        // More processes than steps: one each.
        rates = FaultRates::default();
        for (process, time) in (0..9).zip(1..) {
            rates.add(ProcessId(process), Timestamp(time * SHORTEST_STEP), (1, false), 3);
            rates.add(ProcessId(process), Timestamp((time + 1) * SHORTEST_STEP), (1, false), 3);
        }
        assert_eq!(
            rates
                .all()
                .flat_map(|rate| rate.steps.values())
                .map(|step| step.0)
                .sum::<u64>(),
            18
        );
    }
}
