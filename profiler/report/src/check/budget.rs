//! Parser for budgets, which people write in TOML. Errors name the line; docs/check.md describes the format.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::between::Between;
use crate::metrics::{By, Metric, Unit};
use base::addr::ns;
use base::similar;

/// The largest budget that is read, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;
/// Table of windows between markers.
const MARKERS: &str = "markers";
/// How metrics of critical paths begin.
const PATH: &str = "path";
/// Maximum number of windows: each is measured in each recording.
const MAX_WINDOWS: usize = 64;
/// The default allowance over the baseline, in percent.
const ALLOWED: f64 = 5.0;

/// An error in a budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BudgetError {
    /// The line number, counted from 1.
    pub line: usize,
    /// What is wrong, and how to fix it.
    pub what: String,
}

/// How far a metric may exceed its baseline: the sum of both fields.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Allowance {
    /// In percent of the baseline.
    pub percent: f64,
    /// An absolute amount in the metric's unit, because percentages say little about small values.
    pub plus: u64,
}

impl Allowance {
    /// An allowance of `percent` percent and no absolute amount.
    pub fn of_percent(percent: f64) -> Self {
        Self { percent, plus: 0 }
    }
}

impl Default for Allowance {
    fn default() -> Self {
        Self::of_percent(ALLOWED)
    }
}

/// One requirement of a budget: a limit for a metric, an allowance over the baseline, or both.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The kind of subject: total, phase, file, section, function or thread.
    pub by: By,
    /// Name or pattern of the subject; of a total empty, or `FROM..TO` between markers, or that of a marker.
    pub name: String,
    /// The metric.
    pub metric: Metric,
    /// The upper limit: a count, bytes or ns.
    pub limit: Option<u64>,
    /// The allowance over the baseline; `None` takes the general one of the budget or the command line.
    pub allow: Option<Allowance>,
    /// The entry's line in the budget; `None` for a built-in entry.
    pub line: Option<usize>,
}

/// A parsed budget.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Budget {
    /// The allowance over the baseline for entries that set none.
    pub allow: Option<Allowance>,
    /// One entry per metric.
    pub entries: Vec<Entry>,
}

impl Budget {
    /// The totals to compare with a baseline when there is no budget.
    pub fn of_totals() -> Self {
        let metrics = [
            Metric::Faults,
            Metric::MajorFaults,
            Metric::BytesRead,
            Metric::WastedReadahead,
            Metric::RelocatedPages,
            Metric::CowPages,
            Metric::Wait(fact::WaitReason::Disk),
        ];
        let entry = |metric| Entry {
            by: By::Total,
            name: String::new(),
            metric,
            limit: None,
            allow: None,
            line: None,
        };
        Self {
            allow: None,
            entries: metrics.into_iter().map(entry).collect(),
        }
    }

    /// Names of windows between markers.
    pub fn windows(&self) -> BTreeSet<&str> {
        let totals = self.entries.iter().filter(|entry| entry.by == By::Total);
        totals
            .map(|entry| entry.name.as_str())
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// Patterns of the threads whose critical paths it limits; `None`: it limits no path at all.
    pub fn paths(&self) -> Option<BTreeSet<String>> {
        let of_path = || {
            let entries = self.entries.iter();
            entries.filter(|entry| matches!(entry.metric, Metric::Path(_)))
        };
        of_path().next()?;
        let of_threads = of_path().filter(|entry| entry.by == By::Thread);
        Some(of_threads.map(|entry| entry.name.clone()).collect())
    }

    /// Parses a budget.
    ///
    /// # Errors
    /// All errors in the text, not only the first.
    pub fn parse(text: &str) -> Result<Self, Vec<BudgetError>> {
        let mut parser = Parser {
            text,
            budget: Self::default(),
            errors: Vec::new(),
        };
        match DeTable::parse(text) {
            Ok(table) => parser.document(table.get_ref()),
            Err(error) => parser.wrong(error.span().map_or(0, |span| span.start), error.message()),
        }
        if parser.errors.is_empty() && parser.budget.entries.is_empty() {
            parser.wrong(
                0,
                "the budget limits nothing; add, for example, `[total]` and below it `faults = 100000`",
            );
        }
        if parser.errors.is_empty() {
            Ok(parser.budget)
        } else {
            Err(parser.errors)
        }
    }
}

/// The markers of a window called `FROM..TO`, `FROM..` or `..TO`, or the one marker that it is called after.
pub fn between(name: &str) -> Option<Between> {
    let Some((from, to)) = name.split_once("..") else {
        return (!name.is_empty()).then(|| Between::during(name.to_owned()).of_window(name));
    };
    let pattern = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (from, to) = (pattern(from), pattern(to));
    (from.is_some() || to.is_some()).then(|| Between::new(from, to).of_window(name))
}

type Value<'i> = Spanned<DeValue<'i>>;

struct Parser<'t> {
    text: &'t str,
    budget: Budget,
    errors: Vec<BudgetError>,
}

impl Parser<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.text.get(..at).unwrap_or_default().matches('\n').count()
    }

    fn wrong(&mut self, at: usize, what: impl Into<String>) {
        let (line, what) = (self.line(at), what.into());
        self.errors.push(BudgetError { line, what });
    }

    fn document(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let by = By::ALL.into_iter().find(|by| by.name() == key.get_ref());
            let at = key.span().start;
            match (key.get_ref().as_ref(), by, value.get_ref()) {
                ("allow", _, DeValue::Table(allow)) => {
                    self.budget.allow = Some(self.allowance(allow));
                }
                (MARKERS, _, DeValue::Table(windows)) => self.windows(windows),
                (_, Some(By::Total), DeValue::Table(limits)) => self.limits(By::Total, "", limits),
                (_, Some(by), DeValue::Table(places)) => self.places(by, places),
                (name, Some(_), _) | (name @ ("allow" | MARKERS), ..) => {
                    self.wrong(
                        at,
                        format!("`{name}` is a table: write `[{name}]` and put its keys below it"),
                    );
                }
                (name, None, _) => {
                    let known: Vec<&str> = By::ALL.into_iter().map(By::name).collect();
                    let known = known.join("], [");
                    let what = format!("unknown table `{name}`; expected one of [{known}], [{MARKERS}] or [allow]");
                    self.wrong(at, what);
                }
            }
        }
    }

    /// Parses tables named `FROM..TO` or `NAME`, with totals between two markers or during one.
    fn windows(&mut self, windows: &DeTable<'_>) {
        let mut starts: Vec<usize> = windows.keys().map(|name| name.span().start).collect();
        starts.sort_unstable();
        if let Some(start) = starts.get(MAX_WINDOWS) {
            self.wrong(
                *start,
                format!(
                    "too many windows in [{MARKERS}]: {}; the limit is {MAX_WINDOWS}",
                    starts.len()
                ),
            );
            return;
        }
        for (name, value) in windows {
            match value.get_ref() {
                DeValue::Table(limits) if between(name.get_ref()).is_some() => {
                    self.limits(By::Total, name.get_ref(), limits);
                }
                _ => self.wrong(
                    name.span().start,
                    format!(
                        "`{}` needs a marker or two: write `[{MARKERS}.\"NAME\"]` or `[{MARKERS}.\"FROM..TO\"]` above it",
                        name.get_ref()
                    ),
                ),
            }
        }
    }

    fn places(&mut self, by: By, places: &DeTable<'_>) {
        for (name, value) in places {
            if let DeValue::Table(limits) = value.get_ref() {
                self.limits(by, name.get_ref(), limits);
            } else {
                let (of, key) = (by.name(), name.get_ref());
                let what = format!("`{key}` needs the name of a {of}: write `[{of}.\"NAME\"]` above it");
                self.wrong(name.span().start, what);
            }
        }
    }

    fn limits(&mut self, by: By, name: &str, limits: &DeTable<'_>) {
        for (key, value) in limits {
            // `path.disk_ms` is a key in a table to TOML.
            if let (PATH, DeValue::Table(of_path)) = (key.get_ref().as_ref(), value.get_ref()) {
                for (reason, value) in of_path {
                    let key = format!("{PATH}_{}", reason.get_ref());
                    self.limit(by, name, (&key, reason.span().start), value);
                }
            } else {
                self.limit(by, name, (key.get_ref(), key.span().start), value);
            }
        }
        // The TOML parser sorts by name.
        self.budget.entries.sort_by_key(|entry| entry.line);
    }

    /// Parses the limit of a metric, whose key is at this byte.
    fn limit(&mut self, by: By, name: &str, (key, at): (&str, usize), value: &Value<'_>) {
        let of_path = key.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('.'));
        let plain = of_path.map_or_else(|| key.to_owned(), |rest| format!("{PATH}_{rest}"));
        let Some(metric) = Metric::of_key(&plain) else {
            let known = similar::sentence(key, Metric::all().map(Metric::key));
            self.wrong(at, format!("unknown metric `{key}`{known}"));
            return;
        };
        if !by.has_metric(metric) {
            let tables = By::ALL.into_iter().filter(|by| by.has_metric(metric)).map(By::name);
            let tables: Vec<&str> = tables.collect();
            let (key, tables) = (metric.key(), tables.join("] or ["));
            self.wrong(
                at,
                format!("`{key}` is not available by {}; move it below [{tables}]", by.name()),
            );
            return;
        }
        let (limit, allow) = match value.get_ref() {
            DeValue::Table(table) => self.entry(metric, table),
            _ => (self.quantity(metric, value), None),
        };
        self.budget.entries.push(Entry {
            by,
            name: name.to_owned(),
            metric,
            limit,
            allow,
            line: Some(self.line(at)),
        });
    }

    /// Parses `{ limit = 100, percent = 10, plus = 3 }`; each key is optional.
    fn entry(&mut self, metric: Metric, table: &DeTable<'_>) -> (Option<u64>, Option<Allowance>) {
        let (mut limit, mut percent, mut plus) = (None, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "limit" => limit = self.quantity(metric, value),
                "percent" => percent = self.percent(value),
                "plus" => plus = self.quantity(metric, value),
                other => {
                    let what = format!("unknown key `{other}`; expected limit, percent or plus");
                    self.wrong(key.span().start, what);
                }
            }
        }
        let allow = (percent.is_some() || plus.is_some()).then(|| Allowance {
            percent: percent.unwrap_or(if plus.is_some() { 0.0 } else { ALLOWED }),
            plus: plus.unwrap_or_default(),
        });
        (limit, allow)
    }

    fn allowance(&mut self, table: &DeTable<'_>) -> Allowance {
        let mut allowance = Allowance::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "percent" => allowance.percent = self.percent(value).unwrap_or(ALLOWED),
                other => {
                    let what = format!("unknown key `{other}`; [allow] takes percent (`plus` is for single metrics)");
                    self.wrong(key.span().start, what);
                }
            }
        }
        allowance
    }

    fn percent(&mut self, value: &Value<'_>) -> Option<f64> {
        let percent = number(value).filter(|percent| (0.0..=1e6).contains(percent));
        if percent.is_none() {
            self.wrong(
                value.span().start,
                "invalid percentage; write a number that is 0 or more, as in `percent = 5`",
            );
        }
        percent
    }

    /// Parses a limit into base units: a count, bytes or ns.
    fn quantity(&mut self, metric: Metric, value: &Value<'_>) -> Option<u64> {
        let quantity = match metric.unit() {
            Unit::Time => number(value)
                .and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok())
                .map(ns),
            Unit::Count | Unit::Bytes => match value.get_ref() {
                DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
                _ => None,
            },
        };
        if quantity.is_none() {
            let (key, what) = (
                metric.key(),
                match metric.unit() {
                    Unit::Time => "a number of milliseconds",
                    Unit::Bytes => "a whole number of bytes",
                    Unit::Count => "a whole number",
                },
            );
            self.wrong(value.span().start, format!("`{key}` must be {what}, 0 or more"));
        }
        quantity
    }
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number as f64),
        DeValue::Float(number) => number.as_str().parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
