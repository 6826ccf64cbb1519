//! The rows of a comparison: each figure of each place in both sets, sorted by what changed most.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use super::noise::{adjusted, mann_whitney, smallest};
use crate::report::metrics::{By, Figures, Metric, Metrics, Place, Runs, Unit, median};

/// Of the rows that are told as changed, this share may be so by chance.
pub const FALSE_SHARE: f64 = 0.05;
/// A part is tested, and told, if it is this share of its figure's total in some run.
const WORTH: f64 = 0.01;
/// Figures whose total is smaller than this change by chance.
const SMALL_COUNT: u64 = 100;
const SMALL_BYTES: u64 = 1_000_000;

/// Whether a change is more than noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// More than noise.
    Changed,
    /// Chance would do as well.
    Noise,
    /// Too few runs to tell: the sets are as far apart as they can be, and chance may do that among so many rows.
    Untold,
}

/// A figure of a place in both sets: things, bytes or ns.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What it is of.
    pub place: Place,
    /// The figure.
    pub metric: Metric,
    /// Of each run of the first set.
    pub a: Vec<u64>,
    /// Of each run of the second set.
    pub b: Vec<u64>,
    /// The change of the medians, as a share of the figure's total; times, of the wall time if that is more.
    pub share: f64,
    /// How likely ranks as far apart are if nothing changed; `None`: not tested.
    pub probability: Option<f64>,
    /// The share of false findings among all rows up to this one.
    pub adjusted: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
}

impl Row {
    /// Medians of both sets.
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

/// Why a figure is not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// What the recordings are divided by.
    pub by: By,
    /// The figure.
    pub metric: Metric,
    /// Why.
    pub why: String,
}

/// Two sets of recordings beside each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// Runs of the first set.
    pub runs_a: usize,
    /// Runs of the second set.
    pub runs_b: usize,
    /// So many runs can tell a change from noise at all.
    pub can_tell: bool,
    /// Totals first, then parts; each by what changed most, what is more than noise before the rest.
    pub rows: Vec<Row>,
    /// Figures that not all recordings can tell.
    pub gaps: Vec<Gap>,
}

impl Diff {
    /// Compares.
    pub fn new(a: &Runs, b: &Runs) -> Self {
        let can_tell = smallest(a.all.len(), b.all.len()) <= FALSE_SHARE;
        let (mut totals, mut parts, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
        let places: BTreeSet<&Place> = a.all.iter().chain(&b.all).flat_map(Metrics::places).collect();
        let used: BTreeSet<By> = places.iter().map(|place| place.by()).collect();
        let mut scales: BTreeMap<By, Vec<(Metric, Scale)>> = BTreeMap::new();
        for metric in Metric::all() {
            for by in used.iter().copied().filter(|by| by.tells(metric)) {
                let unknown = |runs: &Runs| runs.all.iter().find_map(|run| run.unknown(by, metric));
                match unknown(a).or_else(|| unknown(b)) {
                    Some(why) => gaps.push(Gap { by, metric, why }),
                    None if by != By::Total && metric.is_idle() => {}
                    None => scales.entry(by).or_default().push((metric, Scale::of(metric, a, b))),
                }
            }
        }
        for place in places {
            let of = |runs: &'_ Runs| -> Vec<Figures> {
                let figures = runs.all.iter().map(|run| run.at(place).copied().unwrap_or_default());
                figures.collect()
            };
            let sides = (of(a), of(b));
            let rows = if *place == Place::Total {
                &mut totals
            } else {
                &mut parts
            };
            for (metric, scale) in scales.get(&place.by()).into_iter().flatten() {
                rows.extend(row(place, *metric, (&sides.0, &sides.1), scale));
            }
        }
        for rows in [&mut totals, &mut parts] {
            if can_tell {
                test(rows);
            }
            rows.sort_by(|one, other| {
                let rank = |row: &Row| (row.verdict == Verdict::Noise, -row.share);
                let ((noise, share), (other_noise, other_share)) = (rank(one), rank(other));
                noise.cmp(&other_noise).then(share.total_cmp(&other_share))
            });
        }
        totals.append(&mut parts);
        Self {
            runs_a: a.all.len(),
            runs_b: b.all.len(),
            can_tell,
            rows: totals,
            gaps,
        }
    }

    /// The rows of a table.
    pub fn by(&self, by: By) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.place.by() == by)
    }

    /// Rows that are more than noise.
    pub fn changed(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.verdict == Verdict::Changed)
    }
}

/// What changes of a figure are held against.
struct Scale {
    /// The largest total of any run.
    largest: u64,
    /// What a share is of.
    whole: f64,
}

impl Scale {
    fn of(metric: Metric, a: &Runs, b: &Runs) -> Self {
        let total = |metric| {
            let of = |runs: &Runs| {
                let totals = runs
                    .all
                    .iter()
                    .map(|run| run.at(&Place::Total).map_or(0, |figures| figures.get(metric)));
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

/// `None`: there is nothing, or it is not worth a row in any run, whichever set that belongs to: the choice of rows does not look at the sets, and
/// so leaves their tests as they are.
fn row(place: &Place, metric: Metric, (a, b): (&[Figures], &[Figures]), scale: &Scale) -> Option<Row> {
    let values = |runs: &[Figures]| -> Vec<u64> { runs.iter().map(|figures| figures.get(metric)).collect() };
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
        verdict: Verdict::Untold,
    })
}

fn test(rows: &mut [Row]) {
    let tested: Vec<Option<f64>> = rows.iter().map(|row| mann_whitney(&row.a, &row.b)).collect();
    let probabilities: Vec<f64> = tested.iter().map(|tested| tested.unwrap_or(1.0)).collect();
    for ((row, adjusted), tested) in rows.iter_mut().zip(adjusted(&probabilities)).zip(tested) {
        if tested.is_some() {
            row.probability = tested;
            row.adjusted = Some(adjusted);
            // Nothing is further apart than this.
            let is_apart = tested.is_some_and(|p| p <= smallest(row.a.len(), row.b.len()) * 1.000_001);
            row.verdict = match (adjusted <= FALSE_SHARE, is_apart) {
                (true, _) => Verdict::Changed,
                (false, true) => Verdict::Untold,
                (false, false) => Verdict::Noise,
            };
        }
    }
}
