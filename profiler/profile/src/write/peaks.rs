//! Peaks: the greatest of each step of time, as markers that the front end draws as a graph. There are at most about as
//! many as pixels, however many facts there are.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use base::addr::Timestamp;

/// Maximum steps of a graph: about one per pixel.
const STEPS: u64 = 2_000;
/// Shortest step, in ns.
const SHORTEST_STEP: u64 = 1_000_000;

/// A fact with its value.
#[derive(Debug, Clone, Copy)]
pub struct Peak<T> {
    /// Start time.
    pub time: Timestamp,
    /// What the graph shows.
    pub value: u64,
    /// The fact.
    pub fact: T,
}

/// The greatest of each step, the first of equal ones; times ascending.
pub fn greatest<T: Copy>(all: impl Iterator<Item = Peak<T>>, (zero, end): (Timestamp, Timestamp)) -> Vec<Peak<T>> {
    let step = (end.0.saturating_sub(zero.0) / STEPS).max(SHORTEST_STEP);
    let mut steps: BTreeMap<u64, Peak<T>> = BTreeMap::new();
    for peak in all {
        let key = |peak: &Peak<T>| (Reverse(peak.value), peak.time);
        let step = peak.time.0.saturating_sub(zero.0) / step;
        let greatest = steps.entry(step).or_insert(peak);
        if key(&peak) < key(greatest) {
            *greatest = peak;
        }
    }
    steps.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_greatest_and_first() {
        let peak = |ms: u64, value| Peak {
            time: Timestamp(ms * 1_000_000 + 7),
            value,
            fact: value,
        };
        let all = [
            peak(9, 1),
            peak(5, 3),
            peak(4, 3),
            peak(5, 2),
            peak(14, 0),
            peak(30_000, 8),
        ];
        let found = greatest(all.into_iter(), (Timestamp(7), Timestamp(20_000_000_007)));
        let found: Vec<_> = found.iter().map(|peak| (peak.time.0 / 1_000_000, peak.value)).collect();
        assert_eq!(found, [(4, 3), (14, 0), (30_000, 8)]);
    }
}
