//! A device's load over time: completed requests, and exact integrals of the requests and bytes in flight.
//!
//! Each request changes the level when it starts and when it ends. A time step keeps the sum of its changes and
//! their moments: each change times the rest of the step after it. The integral over a step is the level before it
//! times its length, plus the moment.

use std::collections::BTreeMap;

use base::addr::Timestamp;

/// Shortest step, in ns.
const SHORTEST_STEP: u64 = 10_000_000;
/// Maximum number of steps per device: two for each pixel of a wide screen.
const STEPS: usize = 4_000;

/// A device's load over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    step: u64,
    /// By step number since time 0 of the clock; only steps in which something changes.
    steps: BTreeMap<u64, Change>,
}

/// What changes in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Change {
    complete: u64,
    requests: Level,
    bytes: Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Level {
    delta: i64,
    moment: i128,
}

impl Level {
    fn change(&mut self, by: i64, left: u64) {
        self.delta = self.delta.saturating_add(by);
        self.moment = self
            .moment
            .saturating_add(i128::from(by).saturating_mul(i128::from(left)));
    }

    /// Adds a neighbour's changes, which `left` more time follows.
    fn absorb(&mut self, other: Self, left: u64) {
        let moved = i128::from(other.delta).saturating_mul(i128::from(left));
        self.delta = self.delta.saturating_add(other.delta);
        self.moment = self.moment.saturating_add(other.moment).saturating_add(moved);
    }
}

/// The load in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadStep {
    /// Start of the interval.
    pub start: Timestamp,
    /// End of the interval.
    pub end: Timestamp,
    /// Requests completed in the interval.
    pub complete: u64,
    /// Integral of the requests in flight, in ns.
    pub requests_ns: u128,
    /// Integral of the bytes in flight, in byte · ns.
    pub bytes_ns: u128,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            step: SHORTEST_STEP,
            steps: BTreeMap::new(),
        }
    }
}

impl Load {
    /// Adds a request that the device had from the first to the second time. The result does not depend on the order of calls.
    pub fn add(&mut self, times: (Timestamp, Timestamp), bytes: u32) {
        self.add_times(times, bytes, 1);
    }

    /// Adds a request that the device still had at the second time.
    pub fn add_unfinished(&mut self, times: (Timestamp, Timestamp), bytes: u32) {
        self.add_times(times, bytes, 0);
    }

    fn add_times(&mut self, (start, end): (Timestamp, Timestamp), bytes: u32, complete: u64) {
        let bytes = i64::from(bytes);
        self.at(start, |change, left| {
            change.requests.change(1, left);
            change.bytes.change(bytes, left);
        });
        self.at(end, |change, left| {
            change.complete += complete;
            change.requests.change(-1, left);
            change.bytes.change(-bytes, left);
        });
        while self.steps.len() > STEPS {
            self.double();
        }
    }

    fn at(&mut self, time: Timestamp, change: impl FnOnce(&mut Change, u64)) {
        let left = self.step - time.0 % self.step;
        change(self.steps.entry(time.0 / self.step).or_default(), left);
    }

    fn double(&mut self) {
        let length = self.step;
        self.step = self.step.saturating_mul(2);
        for (step, change) in std::mem::take(&mut self.steps) {
            // A change in the first half lasts through the second.
            let left = if step % 2 == 0 { length } else { 0 };
            let sum = self.steps.entry(step / 2).or_default();
            sum.complete += change.complete;
            sum.requests.absorb(change.requests, left);
            sum.bytes.absorb(change.bytes, left);
        }
    }

    /// The intervals with load, in order.
    pub fn steps(&self) -> Vec<LoadStep> {
        let mut found = Vec::with_capacity(self.steps.len());
        let (mut requests, mut bytes) = (0i128, 0i128);
        let mut last: Option<u64> = None;
        let positive = |value: i128| u128::try_from(value).unwrap_or(0);
        for (step, change) in &self.steps {
            let start = step.saturating_mul(self.step);
            if let Some(last) = last.filter(|last| *last < start && requests > 0) {
                let gap = i128::from(start - last);
                found.push(LoadStep {
                    start: Timestamp(last),
                    end: Timestamp(start),
                    complete: 0,
                    requests_ns: positive(requests.saturating_mul(gap)),
                    bytes_ns: positive(bytes.saturating_mul(gap)),
                });
            }
            let end = start.saturating_add(self.step);
            let length = i128::from(self.step);
            let integral = |level: i128, change: Level| level.saturating_mul(length).saturating_add(change.moment);
            found.push(LoadStep {
                start: Timestamp(start),
                end: Timestamp(end),
                complete: change.complete,
                requests_ns: positive(integral(requests, change.requests)),
                bytes_ns: positive(integral(bytes, change.bytes)),
            });
            requests = requests.saturating_add(i128::from(change.requests.delta));
            bytes = bytes.saturating_add(i128::from(change.bytes.delta));
            last = Some(end);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_request_fills_the_gap_between_its_ends() {
        let mut load = Load::default();
        load.add((Timestamp(15_000_000), Timestamp(42_000_000)), 1000);
        let steps = load.steps();
        let seen: Vec<_> = steps
            .iter()
            .map(|s| (s.start.0 / 1_000_000, s.end.0 / 1_000_000, s.complete, s.requests_ns))
            .collect();
        assert_eq!(
            seen,
            [(10, 20, 0, 5_000_000), (20, 40, 0, 20_000_000), (40, 50, 1, 2_000_000)]
        );
        assert_eq!(steps[1].bytes_ns, 20_000_000_000);
    }

    proptest! {
        #[test]
        fn integrals_are_exact_whatever_the_order(requests in prop::collection::vec((0u64..1 << 40, 0u64..1 << 36, any::<u32>(), any::<bool>()), 0..3000)) {
            let (mut forward, mut backward) = (Load::default(), Load::default());
            let add = |load: &mut Load, (start, length, bytes, is_complete): &(u64, u64, u32, bool)| {
                let times = (Timestamp(*start), Timestamp(start + length));
                if *is_complete {
                    load.add(times, *bytes);
                } else {
                    load.add_unfinished(times, *bytes);
                }
            };
            for request in &requests {
                add(&mut forward, request);
            }
            for request in requests.iter().rev() {
                add(&mut backward, request);
            }
            prop_assert_eq!(&forward, &backward);
            let steps = forward.steps();
            prop_assert!(steps.len() <= 2 * STEPS);
            prop_assert!(steps.is_sorted_by_key(|step| step.start));
            let lengths: u128 = requests.iter().map(|(_, length, ..)| u128::from(*length)).sum();
            prop_assert_eq!(steps.iter().map(|step| step.requests_ns).sum::<u128>(), lengths);
            let bytes: u128 = requests.iter().map(|(_, length, bytes, _)| u128::from(*length) * u128::from(*bytes)).sum();
            prop_assert_eq!(steps.iter().map(|step| step.bytes_ns).sum::<u128>(), bytes);
            let complete = requests.iter().filter(|(.., is_complete)| *is_complete).count();
            prop_assert_eq!(steps.iter().map(|step| step.complete).sum::<u64>(), complete as u64);
        }
    }
}
