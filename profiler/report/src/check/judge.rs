//! Checks the metrics of recordings against a budget and a baseline.

use serde::{Serialize, Serializer};

use super::budget::{Allowance, Budget, Entry};
use crate::metrics::{By, Metric, MetricValue, Runs};

/// The origin of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The budget sets it.
    Budget,
    /// The value of the baseline plus the allowance.
    Baseline {
        /// The baseline's value.
        had: u64,
        /// The allowance over that value.
        allow: Allowance,
    },
}

/// The result of comparing a metric with its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// At or below the limit.
    Within,
    /// Within the limit only because the recording contains nothing of this name, which may be a typo.
    Unmentioned,
    /// Over the limit by at least this much.
    Over(u64),
    /// The recording does not contain the data; the text is the reason.
    Unknown(String),
}

/// A metric and its limit; values are counts, bytes or ns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The kind of subject: total, phase, file, section, function or thread.
    pub by: By,
    /// Name or pattern of the subject; empty for the total.
    pub name: String,
    /// The metric.
    pub metric: Metric,
    /// The limit.
    pub limit: u64,
    /// The origin of the limit.
    pub from: Limit,
    /// The measured value, or the median of several recordings; a lower bound if it is not fully known.
    pub measured: u64,
    /// The result of the comparison.
    pub verdict: Verdict,
    /// The line in the budget.
    pub line: Option<usize>,
}

/// All metrics of a budget with their limits and verdicts.
#[derive(Debug, Clone, Default)]
pub struct Judgement {
    /// Rows in the order of the budget.
    pub rows: Vec<Row>,
}

impl Judgement {
    /// Rows that exceed their limit.
    pub fn over(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| matches!(row.verdict, Verdict::Over(_)))
    }

    /// Rows that cannot be judged, with the reason.
    pub fn unknown(&self) -> impl Iterator<Item = (&Row, &str)> {
        self.rows.iter().filter_map(|row| match &row.verdict {
            Verdict::Unknown(why) => Some((row, why.as_str())),
            _ => None,
        })
    }

    /// Rows about a name that the recording does not contain.
    pub fn unmentioned(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.verdict == Verdict::Unmentioned)
    }
}

impl Serialize for Judgement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            over: usize,
            unknown: usize,
            rows: &'a [Row],
        }
        let shown = Shown {
            over: self.over().count(),
            unknown: self.unknown().count(),
            rows: &self.rows,
        };
        shown.serialize(serializer)
    }
}

impl Row {
    /// The subject and metric for display, such as `file libxul.so: major faults`.
    pub fn what(&self) -> String {
        let metric = self.metric.words();
        match self.by {
            By::Total if self.name.is_empty() => metric,
            By::Total => format!("{}: {metric}", self.name),
            by => format!("{} {}: {metric}", by.name(), self.name),
        }
    }
}

/// Checks `runs` against the budget, and against the baseline if there is one.
pub fn judge(budget: &Budget, runs: &Runs, baseline: Option<&Runs>) -> Judgement {
    let mut rows = Vec::new();
    for entry in &budget.entries {
        let (places, measured) = runs.sum(entry.by, &entry.name, entry.metric);
        let is_mentioned = entry.by == By::Total || places > 0;
        if let Some(limit) = entry.limit {
            rows.push(row(entry, (limit, Limit::Budget), &measured, is_mentioned));
        }
        if let Some(baseline) = baseline {
            let (had_places, had) = baseline.sum(entry.by, &entry.name, entry.metric);
            let allow = entry.allow.or(budget.allow).unwrap_or_default();
            let limit = (
                allowed(had.at_least, allow),
                Limit::Baseline {
                    had: had.at_least,
                    allow,
                },
            );
            let mut row = row(entry, limit, &measured, is_mentioned || had_places > 0);
            if let Some(why) = had.unknown {
                row.verdict = Verdict::Unknown(format!("in the baseline: {why}"));
            }
            rows.push(row);
        }
    }
    Judgement { rows }
}

fn row(entry: &Entry, (limit, from): (u64, Limit), measured: &MetricValue, is_mentioned: bool) -> Row {
    // Waits that are missing count as running: an unknown path is no lower bound.
    let is_bound = measured.unknown.is_none() || !matches!(entry.metric, Metric::Path(_));
    let verdict = match (measured.at_least.checked_sub(limit), &measured.unknown) {
        (Some(over @ 1..), _) if is_bound => Verdict::Over(over),
        (_, Some(why)) => Verdict::Unknown(why.clone()),
        _ if is_mentioned => Verdict::Within,
        _ => Verdict::Unmentioned,
    };
    Row {
        by: entry.by,
        name: entry.name.clone(),
        metric: entry.metric,
        limit,
        from,
        measured: measured.at_least,
        verdict,
        line: entry.line,
    }
}

/// The baseline's value plus the allowance, rounded down.
fn allowed(had: u64, allow: Allowance) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and `as` saturates"
    )]
    let more = (had as f64 * allow.percent / 100.0).floor() as u64;
    had.saturating_add(more).saturating_add(allow.plus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_over_the_baseline_is_rounded_down() {
        let percent = Allowance::of_percent;
        assert_eq!(
            [
                allowed(0, percent(5.0)),
                allowed(100, percent(5.0)),
                allowed(19, percent(5.0))
            ],
            [0, 105, 19]
        );
        assert_eq!(allowed(10, Allowance { percent: 10.0, plus: 4 }), 15);
        assert_eq!(allowed(u64::MAX, percent(1e6)), u64::MAX);
    }
}
