//! Medians of metrics over several recordings of the same workload.

use super::{By, Metric, MetricValue, Metrics};

/// Recordings of the same workload, in recording order.
#[derive(Debug, Default)]
pub struct Runs {
    /// Metrics of each recording; at least one.
    pub all: Vec<Metrics>,
}

impl Runs {
    /// The largest number of places that match a pattern in any run, and the median over runs of the sum over these places.
    pub fn sum(&self, by: By, pattern: &str, metric: Metric) -> (usize, MetricValue) {
        let sums: Vec<(usize, MetricValue)> = (self.all.iter()).map(|run| run.sum(by, pattern, metric)).collect();
        let places = sums.iter().map(|(places, _)| *places).max().unwrap_or_default();
        let unknown = sums.iter().find_map(|(_, value)| value.unknown.clone());
        let values: Vec<u64> = sums.iter().map(|(_, value)| value.at_least).collect();
        let at_least = median(&values);
        (places, MetricValue { at_least, unknown })
    }
}

/// Median of the values: the mean of the two middle ones if their number is even, zero if there are none.
pub fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    let Some(&upper) = sorted.get(middle) else { return 0 };
    if sorted.len() % 2 == 1 {
        return upper;
    }
    let lower = middle.checked_sub(1).and_then(|at| sorted.get(at)).copied();
    u64::midpoint(lower.unwrap_or(upper), upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(
            [median(&[]), median(&[7]), median(&[9, 1, 5]), median(&[4, 1, 9, 2])],
            [0, 7, 5, 3]
        );
        assert_eq!(median(&[u64::MAX, u64::MAX]), u64::MAX);
    }
}
