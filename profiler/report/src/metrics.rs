//! Metrics of a recording, shared by budgets, comparisons and repeated runs. Each is defined once, here and in docs/check.md.

mod alike;
mod gather;
mod known;
mod names;
mod paths;
mod place;
mod runs;
mod sums;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::path::walk::Kind;
use super::text::{bytes, count, duration};
use fact::WaitReason;

pub use gather::Facts;
use paths::PathOf;
pub use paths::Paths;
pub use place::{By, Place};
pub use runs::{Runs, median};

/// Number of metrics other than waits and those of the critical path.
const OTHERS: usize = 9;
/// Number of metrics other than those of the critical path.
const BEFORE_PATH: usize = OTHERS + WaitReason::ALL.len();
/// Number of metrics.
const METRICS: usize = BEFORE_PATH + Kind::COUNT;

/// A metric; its key includes its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Lifetime of the command's first process, or of the recording if there is no command, in ns.
    Wall,
    /// On-CPU time, in ns.
    Cpu,
    /// Page faults that succeeded.
    Faults,
    /// Successful faults that the kernel counts as major.
    MajorFaults,
    /// Time of successful faults from exception to completion, in ns.
    FaultWait,
    /// Faults that copied a page on a write: a page of a file, or one shared by a fork.
    CowPages,
    /// Pages of files that the dynamic linker copied for relocation.
    RelocatedPages,
    /// Bytes read from disks for recorded threads.
    BytesRead,
    /// Bytes that page faults read into the page cache but were never touched or mapped.
    WastedReadahead,
    /// Off-CPU time for one reason, in ns.
    Wait(WaitReason),
    /// Time on the critical path of a thread for one reason, in ns.
    Path(Kind),
}

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Number of events or pages.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds; keys and limits use milliseconds.
    Time,
}

impl Metric {
    /// Metrics other than waits and those of the critical path.
    const OTHERS: [Self; OTHERS] = [
        Self::Wall,
        Self::Cpu,
        Self::Faults,
        Self::MajorFaults,
        Self::FaultWait,
        Self::CowPages,
        Self::RelocatedPages,
        Self::BytesRead,
        Self::WastedReadahead,
    ];

    /// Every metric, in the order of tables.
    pub fn all() -> impl Iterator<Item = Self> {
        let waits = WaitReason::ALL.into_iter().map(Self::Wait);
        Self::OTHERS.into_iter().chain(waits).chain(Self::of_path())
    }

    /// The metrics of the critical path; they add up to its time span.
    pub fn of_path() -> impl Iterator<Item = Self> {
        Kind::all().map(Self::Path)
    }

    /// Index into [`MetricValues`].
    fn index(self) -> usize {
        let wait = |reason| WaitReason::ALL.iter().position(|one| *one == reason);
        match self {
            Self::Wait(reason) => OTHERS + wait(reason).unwrap_or_default(),
            Self::Path(kind) => BEFORE_PATH + Kind::all().position(|one| one == kind).unwrap_or_default(),
            other => Self::OTHERS.iter().position(|one| *one == other).unwrap_or_default(),
        }
    }

    /// Key in budgets, with the unit if there is one.
    pub fn key(self) -> String {
        let key = match self {
            Self::Wall => "wall_ms",
            Self::Cpu => "cpu_ms",
            Self::Faults => "faults",
            Self::MajorFaults => "major_faults",
            Self::FaultWait => "fault_wait_ms",
            Self::CowPages => "cow_pages",
            Self::RelocatedPages => "relocated_pages",
            Self::BytesRead => "bytes_read",
            Self::WastedReadahead => "wasted_readahead_bytes",
            Self::Wait(reason) => return format!("{}_wait_ms", reason.name().replace('-', "_")),
            Self::Path(kind) => return format!("path_{}_ms", kind.name().replace('-', "_")),
        };
        key.to_owned()
    }

    /// Key in JSON, where times are integers in ns.
    pub fn json_key(self) -> String {
        let key = self.key();
        key.strip_suffix("_ms").map_or(key.clone(), |time| format!("{time}_ns"))
    }

    /// Name in tables, which print the unit next to the value.
    pub fn words(self) -> String {
        let key = self.key();
        let unit = ["_ms", "_bytes"].into_iter().find_map(|unit| key.strip_suffix(unit));
        unit.unwrap_or(&key).replace('_', " ")
    }

    /// The metric with this budget key.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::all().find(|metric| metric.key() == key)
    }

    /// Unit of the metric.
    pub fn unit(self) -> Unit {
        match self {
            Self::Wall | Self::Cpu | Self::FaultWait | Self::Wait(_) | Self::Path(_) => Unit::Time,
            Self::BytesRead | Self::WastedReadahead => Unit::Bytes,
            Self::Faults | Self::MajorFaults | Self::CowPages | Self::RelocatedPages => Unit::Count,
        }
    }

    /// Formats a value with its unit.
    pub fn show(self, value: u64) -> String {
        match self.unit() {
            Unit::Count => count(value),
            Unit::Bytes => bytes(value),
            Unit::Time => duration(value),
        }
    }

    /// Formats a value for a column: zero has no unit.
    pub(crate) fn cell(self, value: u64) -> String {
        if value == 0 { "0".to_owned() } else { self.show(value) }
    }

    /// Whether it is time on a critical path.
    pub fn is_of_path(self) -> bool {
        matches!(self, Self::Path(_))
    }

    /// Whether the metric is time in which a thread had nothing to do rather than being blocked.
    pub fn is_idle(self) -> bool {
        matches!(self, Self::Wait(reason) if reason.is_idle())
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.json_key())
    }
}

/// Values of all metrics for one place, by [`Metric::index`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricValues([u64; METRICS]);

impl Default for MetricValues {
    fn default() -> Self {
        Self([0; METRICS])
    }
}

impl MetricValues {
    /// The known part of a metric's value.
    pub fn get(&self, metric: Metric) -> u64 {
        self.0.get(metric.index()).copied().unwrap_or_default()
    }

    fn add(&mut self, metric: Metric, more: u64) {
        if let Some(sum) = self.0.get_mut(metric.index()) {
            *sum = sum.saturating_add(more);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Value of a metric, possibly incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetricValue {
    /// Known part of the value; all of it, unless `unknown` is set.
    pub at_least: u64,
    /// Why the value is incomplete.
    pub unknown: Option<String>,
}

impl MetricValue {
    /// The value, if it is complete.
    pub fn exact(&self) -> Option<u64> {
        self.unknown.is_none().then_some(self.at_least)
    }
}

/// Metrics of a recording by place.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Warnings about the reliability of the values.
    pub warnings: Vec<String>,
    places: BTreeMap<Place, MetricValues>,
    unknown: BTreeMap<(By, Metric), String>,
    /// Paths of threads other than the command's first, by the pattern that a budget names; `None`: no path was followed.
    paths: Option<BTreeMap<String, PathOf>>,
    /// Metrics of parts between markers, by what a budget calls them.
    pub windows: BTreeMap<String, Self>,
}

impl Metrics {
    /// Why a metric is unknown or incomplete by this dimension; `None` if it is complete.
    pub fn unknown(&self, by: By, metric: Metric) -> Option<String> {
        if !by.has_metric(metric) {
            let available = By::ALL.into_iter().filter(|by| by.has_metric(metric)).map(By::name);
            let available: Vec<&str> = available.collect();
            return Some(format!("available only by {}", available.join(", ")));
        }
        let is_followed = self.paths.is_some() || !matches!(metric, Metric::Path(_));
        let not_followed = || (!is_followed).then(|| "the critical path was not followed".to_owned());
        self.unknown.get(&(by, metric)).cloned().or_else(not_followed)
    }

    /// Value of a metric for a place; zero if the recording does not mention the place.
    pub fn value(&self, place: &Place, metric: Metric) -> MetricValue {
        MetricValue {
            at_least: self.places.get(place).map_or(0, |values| values.get(metric)),
            unknown: self.unknown(place.by(), metric),
        }
    }

    /// Known values of all metrics for a place; `None` if the recording does not mention it.
    pub fn at(&self, place: &Place) -> Option<&MetricValues> {
        self.places.get(place)
    }

    /// All places that the recording mentions.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.keys()
    }

    /// Number of places that match a pattern, and the sum of a metric over them. A total may have the name of a window.
    pub fn sum(&self, by: By, pattern: &str, metric: Metric) -> (usize, MetricValue) {
        if let (By::Total, Some(window)) = (by, self.windows.get(pattern)) {
            return window.sum(by, "", metric);
        }
        if let (By::Thread, Metric::Path(_)) = (by, metric) {
            return self.sum_of_path(pattern, metric);
        }
        let fitting = (self.places.iter()).filter(|(place, _)| place.by() == by && place.fits(pattern));
        let (places, at_least) = fitting.fold((0, 0_u64), |(places, sum), (_, values)| {
            (places + 1, sum.saturating_add(values.get(metric)))
        });
        let unknown = self.unknown(by, metric);
        (places, MetricValue { at_least, unknown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_keys_are_unique() {
        let keys: Vec<String> = Metric::all().map(Metric::key).collect();
        assert_eq!(keys.len(), METRICS);
        for (index, metric) in Metric::all().enumerate() {
            assert_eq!((Metric::of_key(&metric.key()), metric.index()), (Some(metric), index));
        }
        for key in [
            "faults",
            "major_faults",
            "bytes_read",
            "wasted_readahead_bytes",
            "relocated_pages",
            "cow_pages",
            "disk_wait_ms",
            "fault_wait_ms",
            "run_queue_wait_ms",
            "cpu_ms",
            "wall_ms",
            "path_cpu_ms",
            "path_fault_ms",
            "path_run_queue_ms",
        ] {
            assert!(keys.iter().any(|one| one == key), "{key}");
        }
        assert_eq!(Metric::Wait(WaitReason::RunQueue).words(), "run queue wait");
        assert_eq!(Metric::Path(Kind::Wait(WaitReason::Lock)).words(), "path lock");
    }
}
