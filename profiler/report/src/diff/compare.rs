//! The rows of a comparison: each metric of each place in both sets, sorted by the largest change.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use super::noise::{adjusted, mann_whitney, smallest};
use crate::metrics::{By, Metric, MetricValues, Metrics, Place, Runs, Unit, median};

/// The accepted share of false findings among the rows reported as changed.
pub const FALSE_SHARE: f64 = 0.05;
/// A part is tested and reported if it has at least this share of its metric's total in some run.
const WORTH: f64 = 0.01;
/// Totals smaller than this change by chance.
const SMALL_COUNT: u64 = 100;
const SMALL_BYTES: u64 = 1_000_000;

/// Whether a change is more than noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// More than noise.
    Changed,
    /// Chance explains the change as well.
    Noise,
    /// Too few runs to decide: the sets do not overlap at all, but among this many rows chance may do that too.
    #[serde(rename = "untold")]
    TooFewRuns,
}

/// A metric of a place in both sets; values are counts, bytes or ns.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The place: the total, or a part of the recording.
    pub place: Place,
    /// The metric.
    pub metric: Metric,
    /// The value in each run of the first set.
    pub a: Vec<u64>,
    /// The value in each run of the second set.
    pub b: Vec<u64>,
    /// The change of the medians as a share of the metric's total; for times, of the wall time if that is larger.
    pub share: f64,
    /// The probability of ranks at least this far apart if nothing changed; `None` if not tested.
    pub probability: Option<f64>,
    /// The expected share of false findings among all rows up to this one.
    pub adjusted: Option<f64>,
    /// The conclusion from the test.
    pub verdict: Verdict,
}

impl Row {
    /// The medians of both sets.
    pub fn medians(&self) -> (u64, u64) {
        (median(&self.a), median(&self.b))
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'r> {
            by: By,
            name: String,
            metric: Metric,
            median_a: u64,
            median_b: u64,
            a: &'r [u64],
            b: &'r [u64],
            share: f64,
            probability: Option<f64>,
            adjusted: Option<f64>,
            verdict: Verdict,
        }
        let (median_a, median_b) = self.medians();
        let shown = Shown {
            by: self.place.by(),
            name: self.place.name(),
            metric: self.metric,
            median_a,
            median_b,
            a: &self.a,
            b: &self.b,
            share: self.share,
            probability: self.probability,
            adjusted: self.adjusted,
            verdict: self.verdict,
        };
        shown.serialize(serializer)
    }
}

/// A metric that is not compared, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The kind of place: total, phase, file, section, function or thread.
    pub by: By,
    /// The metric.
    pub metric: Metric,
    /// The reason.
    pub why: String,
}

/// The comparison of two sets of recordings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// The number of runs in the first set.
    pub runs_a: usize,
    /// The number of runs in the second set.
    pub runs_b: usize,
    /// There are enough runs to distinguish any change from noise.
    #[serde(rename = "can_tell")]
    pub has_enough_runs: bool,
    /// Totals first, then the critical path, then parts; within each, rows above noise first, then by the largest change.
    pub rows: Vec<Row>,
    /// Metrics that are unknown in at least one recording.
    pub gaps: Vec<Gap>,
}

impl Diff {
    /// Compares two sets of runs.
    pub fn new(a: &Runs, b: &Runs) -> Self {
        let has_enough_runs = smallest(a.all.len(), b.all.len()) <= FALSE_SHARE;
        let (mut totals, mut path, mut parts, mut gaps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let places: BTreeSet<&Place> = a.all.iter().chain(&b.all).flat_map(Metrics::places).collect();
        let used: BTreeSet<By> = places.iter().map(|place| place.by()).collect();
        let mut scales: BTreeMap<By, Vec<(Metric, Scale)>> = BTreeMap::new();
        for metric in Metric::all() {
            for by in used.iter().copied().filter(|by| is_compared(*by, metric)) {
                let unknown = |runs: &Runs| runs.all.iter().find_map(|run| run.unknown(by, metric));
                match unknown(a).or_else(|| unknown(b)) {
                    Some(why) => gaps.push(Gap { by, metric, why }),
                    None if by != By::Total && metric.is_idle() => {}
                    None => scales.entry(by).or_default().push((metric, Scale::of(metric, a, b))),
                }
            }
        }
        for place in places {
            let of = |runs: &'_ Runs| -> Vec<MetricValues> {
                let metric_values = runs.all.iter().map(|run| run.at(place).copied().unwrap_or_default());
                metric_values.collect()
            };
            let sides = (of(a), of(b));
            let rows = if *place == Place::Total {
                &mut totals
            } else {
                &mut parts
            };
            for (metric, scale) in scales.get(&place.by()).into_iter().flatten() {
                let rows = if metric.is_of_path() { &mut path } else { &mut *rows };
                rows.extend(row(place, *metric, (&sides.0, &sides.1), scale));
            }
        }
        for rows in [&mut totals, &mut path, &mut parts] {
            if has_enough_runs {
                test(rows);
            }
            rows.sort_by(|one, other| {
                let rank = |row: &Row| (row.verdict == Verdict::Noise, -row.share);
                let ((noise, share), (other_noise, other_share)) = (rank(one), rank(other));
                noise.cmp(&other_noise).then(share.total_cmp(&other_share))
            });
        }
        totals.append(&mut path);
        totals.append(&mut parts);
        Self {
            runs_a: a.all.len(),
            runs_b: b.all.len(),
            has_enough_runs,
            rows: totals,
            gaps,
        }
    }

    /// The rows of the table of `by`.
    pub fn by(&self, by: By) -> impl Iterator<Item = &Row> {
        let is_of_path = |row: &Row| row.metric.is_of_path();
        self.rows
            .iter()
            .filter(move |row| row.place.by() == by && !is_of_path(row))
    }

    /// The rows of the critical path of the command's first thread.
    pub fn path(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.metric.is_of_path())
    }

    /// Rows that changed by more than noise.
    pub fn changed(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.verdict == Verdict::Changed)
    }
}

/// Whether a metric is compared by this dimension: of critical paths, only that of the command's first thread is.
fn is_compared(by: By, metric: Metric) -> bool {
    by.has_metric(metric) && (by == By::Total || !metric.is_of_path())
}

/// The reference that changes of a metric are compared with.
struct Scale {
    /// The largest total of any run.
    largest: u64,
    /// The value that counts as a share of 1.
    whole: f64,
}

impl Scale {
    fn of(metric: Metric, a: &Runs, b: &Runs) -> Self {
        let total = |metric| {
            let of = |runs: &Runs| {
                let totals = runs.all.iter().map(|run| {
                    run.at(&Place::Total)
                        .map_or(0, |metric_values| metric_values.get(metric))
                });
                totals.collect()
            };
            let (a, b): (Vec<u64>, Vec<u64>) = (of(a), of(b));
            let medians = median(&a).max(median(&b));
            (a.into_iter().chain(b).max().unwrap_or_default(), medians)
        };
        let (largest, medians) = total(metric);
        let whole = medians.max(match metric.unit() {
            Unit::Count => SMALL_COUNT,
            Unit::Bytes => SMALL_BYTES,
            Unit::Time => total(Metric::Wall).1,
        });
        Self {
            largest,
            whole: whole.max(1) as f64,
        }
    }
}

/// Builds a row. `None` if all values are 0, or too small for a row in every run. The choice ignores which set a run belongs to, and therefore
/// does not bias the tests.
fn row(place: &Place, metric: Metric, (a, b): (&[MetricValues], &[MetricValues]), scale: &Scale) -> Option<Row> {
    let values =
        |runs: &[MetricValues]| -> Vec<u64> { runs.iter().map(|metric_values| metric_values.get(metric)).collect() };
    let (a, b) = (values(a), values(b));
    let largest = a.iter().chain(&b).copied().max().unwrap_or_default();
    let is_worth = *place == Place::Total || largest as f64 >= scale.largest as f64 * WORTH;
    if largest == 0 || !is_worth {
        return None;
    }
    let share = median(&a).abs_diff(median(&b)) as f64 / scale.whole;
    Some(Row {
        place: place.clone(),
        metric,
        a,
        b,
        share,
        probability: None,
        adjusted: None,
        verdict: Verdict::TooFewRuns,
    })
}

fn test(rows: &mut [Row]) {
    let tested: Vec<Option<f64>> = rows.iter().map(|row| mann_whitney(&row.a, &row.b)).collect();
    let probabilities: Vec<f64> = tested.iter().map(|tested| tested.unwrap_or(1.0)).collect();
    for ((row, adjusted), tested) in rows.iter_mut().zip(adjusted(&probabilities)).zip(tested) {
        if tested.is_some() {
            row.probability = tested;
            row.adjusted = Some(adjusted);
            // No result is more extreme: the sets do not overlap.
            let is_disjoint = tested.is_some_and(|p| p <= smallest(row.a.len(), row.b.len()) * 1.000_001);
            row.verdict = match (adjusted <= FALSE_SHARE, is_disjoint) {
                (true, _) => Verdict::Changed,
                (false, true) => Verdict::TooFewRuns,
                (false, false) => Verdict::Noise,
            };
        }
    }
}
