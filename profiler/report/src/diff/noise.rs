//! Tests whether two sets of values differ by more than chance: an exact Mann-Whitney test that handles ties, and an adjustment for many tests.
//!
//! Under the null hypothesis every way to deal the pooled ranks to the two sets is equally likely. The ways are counted, not approximated, by
//! adding one value after the other to sets of every size and rank sum.

/// The largest number of values, in both sets together, for which counting the ways is fast enough.
const MOST: usize = 100;

/// The two-sided probability of rank sums at least this far from their mean if both sets have the same distribution. `None` if a set is empty,
/// or if both together have more than 100 values.
pub fn mann_whitney(a: &[u64], b: &[u64]) -> Option<f64> {
    let all = a.len() + b.len();
    if a.is_empty() || b.is_empty() || all > MOST {
        return None;
    }
    let ranks = doubled_ranks(a, b);
    let observed: usize = ranks.get(..a.len())?.iter().sum();
    // The number of ways to choose a set, by its size and its sum of doubled ranks.
    let most = ranks.iter().sum::<usize>();
    let mut ways = vec![vec![0.0_f64; most + 1]; a.len() + 1];
    *ways.first_mut()?.first_mut()? = 1.0;
    for rank in &ranks {
        for size in (1..=a.len()).rev() {
            let (smaller, larger) = ways.split_at_mut(size);
            let (Some(from), Some(to)) = (smaller.last(), larger.first_mut()) else {
                return None;
            };
            for (sum, more) in to.iter_mut().skip(*rank).zip(from) {
                *sum += more;
            }
        }
    }
    let ways = ways.last()?;
    // Twice the mean of the doubled sum, which is always a whole number.
    let mean = 2 * a.len() * (all + 1);
    let distance = |sum: usize| (2 * sum).abs_diff(mean);
    let far = ways
        .iter()
        .enumerate()
        .filter(|(sum, _)| distance(*sum) >= distance(observed));
    let far: f64 = far.map(|(_, ways)| ways).sum();
    Some((far / ways.iter().sum::<f64>()).min(1.0))
}

/// Twice each value's rank among all values, from 2 on; equal values share the mean of their ranks.
fn doubled_ranks(a: &[u64], b: &[u64]) -> Vec<usize> {
    let all: Vec<u64> = a.iter().chain(b).copied().collect();
    let rank = |value: &u64| {
        let below = all.iter().filter(|other| *other < value).count();
        let same = all.iter().filter(|other| *other == value).count();
        2 * below + same + 1
    };
    all.iter().map(rank).collect()
}

/// The smallest probability that the test can return for sets of these sizes.
pub fn smallest(a: usize, b: usize) -> f64 {
    // 2 / binomial(a + b, a)
    let ways = (1..=a).fold(1.0, |ways, i| ways * (b + i) as f64 / i as f64);
    (2.0 / ways).min(1.0)
}

/// Benjamini-Hochberg adjustment: for each probability, the expected share of false findings among all rows up to this one.
pub fn adjusted(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*b].total_cmp(&probabilities[*a]));
    let mut adjusted = vec![1.0; probabilities.len()];
    let mut least = 1.0_f64;
    for (behind, index) in order.into_iter().enumerate() {
        let rank = probabilities.len() - behind;
        least = least.min(probabilities[index] * probabilities.len() as f64 / rank as f64);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
    }

    #[test]
    fn probabilities_match_the_published_tables() {
        near(mann_whitney(&[1, 2, 3], &[4, 5, 6]), 2.0 / 20.0);
        near(mann_whitney(&[1, 2, 3, 4, 5], &[6, 7, 8, 9, 10]), 2.0 / 252.0);
        // U = 4 for 5 against 5: the tables have 0.0952.
        near(mann_whitney(&[1, 2, 3, 5, 8], &[4, 6, 7, 9, 10]), 24.0 / 252.0);
        near(mann_whitney(&[7; 5], &[7; 5]), 1.0);
        // Two of four values share a rank: deals of {1, 2.5, 2.5, 4}.
        near(mann_whitney(&[1, 2], &[2, 3]), 4.0 / 6.0);
        assert_eq!(
            (mann_whitney(&[], &[1]), mann_whitney(&[0; 50], &[0; 51])),
            (None, None)
        );
        near(mann_whitney(&[0; 20], &[1; 20]), smallest(20, 20));
    }

    #[test]
    fn few_runs_cannot_be_significant() {
        assert!((smallest(1, 1) - 1.0).abs() < 1e-12);
        assert!((smallest(3, 3) - 0.1).abs() < 1e-12 && (smallest(4, 4) - 2.0 / 70.0).abs() < 1e-12);
    }

    #[test]
    fn adjustment_is_benjamini_hochberg() {
        let found = adjusted(&[0.01, 0.04, 0.03, 0.5]);
        for (found, expected) in found.iter().zip([0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert!(adjusted(&[]).is_empty());
    }

    proptest! {
        /// Compares the count with an enumeration of every deal.
        #[test]
        fn counting_equals_enumeration(a in prop::collection::vec(0..6_u64, 1..5), b in prop::collection::vec(0..6_u64, 1..5)) {
            let ranks = doubled_ranks(&a, &b);
            let mean = 2 * a.len() * (ranks.len() + 1);
            let distance = |sum: usize| (2 * sum).abs_diff(mean);
            let own = distance(ranks[..a.len()].iter().sum());
            let (mut far, mut all) = (0, 0);
            for deal in 0..1_u32 << ranks.len() {
                if deal.count_ones() as usize == a.len() {
                    let sum = ranks.iter().enumerate().filter(|(i, _)| deal >> i & 1 == 1).map(|(_, rank)| rank).sum();
                    all += 1;
                    far += i32::from(distance(sum) >= own);
                }
            }
            let found = mann_whitney(&a, &b).unwrap();
            prop_assert!((found - f64::from(far) / f64::from(all)).abs() < 1e-9);
        }
    }
}
