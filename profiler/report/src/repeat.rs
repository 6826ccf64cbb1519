//! Repeated runs of one command: median and spread of each metric, and outlier runs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::grid::{Column, Grid};
use super::metrics::{By, Metric, Metrics, Place, median};
use super::text::{bytes, count, fit, percent, warning, write_lines};
use base::plural::counted;
use fact::WaitReason;

/// Metrics in the printed summary; JSON has all.
const SHOWN: [Metric; 7] = [
    Metric::Wall,
    Metric::Cpu,
    Metric::Faults,
    Metric::MajorFaults,
    Metric::FaultWait,
    Metric::BytesRead,
    Metric::Wait(WaitReason::Disk),
];
/// Minimum number of runs to detect outliers.
const ENOUGH: usize = 5;
/// Modified z-score above which a run is an outlier (Iglewicz and Hoaglin, "How to detect and handle outliers", 1993).
const UNLIKE: f64 = 3.5;

/// State of the page cache at the start of a run, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheState {
    /// The cache was supposed to be cold; otherwise warm.
    pub cold: bool,
    /// Total size of the command's files in bytes.
    pub bytes: u64,
    /// Bytes that were in the wrong state.
    pub wrong: u64,
    /// Bytes whose state the kernel did not report.
    #[serde(rename = "untold")]
    pub unreported: u64,
}

/// Result of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Number of the run, from 1.
    pub number: u32,
    /// Path of the run's profile.
    pub profile: String,
    /// Exit status that represents the command's.
    pub status: u8,
    /// The run was ended by Ctrl-C.
    pub interrupted: bool,
    /// Known totals by metric key: counts, bytes or ns.
    #[serde(rename = "figures")]
    pub values: BTreeMap<String, u64>,
    /// Reasons why other totals are unknown, by metric key.
    pub unknown: BTreeMap<String, String>,
    /// State of the page cache, if it was controlled.
    pub cache: Option<CacheState>,
    /// Warnings, such as losses.
    pub warnings: Vec<String>,
}

impl Run {
    /// Adds the totals and warnings of the run's recording.
    #[must_use]
    pub fn with(mut self, metrics: &Metrics) -> Self {
        for metric in Metric::all() {
            match metrics.unknown(By::Total, metric) {
                Some(why) => drop(self.unknown.insert(metric.json_key(), why)),
                None => drop(
                    self.values
                        .insert(metric.json_key(), metrics.value(&Place::Total, metric).at_least),
                ),
            }
        }
        self.warnings.extend(metrics.warnings.iter().cloned());
        self
    }

    /// Total of a metric, if known.
    pub fn value(&self, metric: Metric) -> Option<u64> {
        self.values.get(&metric.json_key()).copied()
    }

    /// Summary in one line; `of` is the number of runs.
    pub fn line(&self, of: u32) -> String {
        let describe = |metric: Metric| {
            self.value(metric)
                .map(|value| format!("{} {}", metric.words(), metric.show(value)))
        };
        let shown = [Metric::Wall, Metric::Faults, Metric::MajorFaults, Metric::BytesRead];
        let shown: Vec<String> = shown.into_iter().filter_map(describe).collect();
        let status = if self.status == 0 {
            String::new()
        } else {
            format!(", exit status {}", self.status)
        };
        format!("run {} of {of}: {}{status}", self.number, shown.join(", "))
    }
}

/// A metric over all runs: counts, bytes or ns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// The metric.
    pub metric: Metric,
    /// Median over all runs.
    pub median: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Value of each run.
    pub each: Vec<u64>,
}

const SPREADS: Grid<Spread> = Grid {
    name: 16,
    gap: 1,
    columns: &[
        Column("median", 12, |of, _| of.metric.cell(of.median)),
        Column("min", 12, |of, _| of.metric.cell(of.min)),
        Column("max", 12, |of, _| of.metric.cell(of.max)),
        Column("spread", 10, |of, _| percent(of.max - of.min, of.median)),
    ],
};

/// A run whose wall time deviates from the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outlier {
    /// Number of the run.
    pub number: u32,
    /// Wall time of the run, in ns.
    pub wall_ns: u64,
    /// Median wall time, in ns.
    pub median_ns: u64,
}

/// Summary of all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repeated {
    /// Command with its arguments.
    pub command: Vec<String>,
    /// Number of requested runs.
    pub asked: u32,
    /// Completed runs, which the summary covers.
    pub runs: Vec<Run>,
    /// Metrics that are known for all runs.
    pub spreads: Vec<Spread>,
    /// Runs whose wall time deviates from the others.
    pub outliers: Vec<Outlier>,
    /// Reasons for missing metrics, and the warnings of the runs.
    pub warnings: Vec<String>,
}

impl Repeated {
    /// Summarizes the runs that were not interrupted.
    pub fn new(command: Vec<String>, asked: u32, runs: Vec<Run>) -> Self {
        let runs: Vec<Run> = runs.into_iter().filter(|run| !run.interrupted).collect();
        let spread = |metric| {
            let each: Option<Vec<u64>> = runs.iter().map(|run: &Run| run.value(metric)).collect();
            let each = each.filter(|each| !each.is_empty())?;
            Some(Spread {
                metric,
                median: median(&each),
                min: each.iter().copied().min().unwrap_or_default(),
                max: each.iter().copied().max().unwrap_or_default(),
                each,
            })
        };
        let mut warnings: Vec<String> = Vec::new();
        for run in &runs {
            let unknown = run
                .unknown
                .iter()
                .filter(|(key, _)| SHOWN.iter().any(|metric| metric.json_key() == **key));
            let unknown = unknown.map(|(key, why)| format!("{key} is unknown: {why}"));
            for warning in unknown.chain(run.warnings.iter().map(|why| format!("run {}: {why}", run.number))) {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
        Self {
            command,
            asked,
            spreads: Metric::all().filter_map(spread).collect(),
            outliers: outliers(&runs),
            warnings,
            runs,
        }
    }

    /// Writes the summary with ANSI styles, at most 80 columns wide.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let all = match (self.runs.len(), self.asked as usize) {
            (done, asked) if done == asked => counted(done as u64, "run"),
            (done, asked) => format!("{done} of {}", counted(asked as u64, "run")),
        };
        writeln!(out, "{all} of {}", fit(&self.command.join(" "), 60))?;
        writeln!(out, "{}", SPREADS.head(""))?;
        for spread in self.spreads.iter().filter(|spread| SHOWN.contains(&spread.metric)) {
            writeln!(out, "{}", SPREADS.row(&spread.metric.words(), spread, spread))?;
        }
        if let Some(line) = self.cache() {
            writeln!(out, "{line}")?;
        }
        for outlier in &self.outliers {
            let [wall, median] = [outlier.wall_ns, outlier.median_ns].map(|ns| Metric::Wall.show(ns));
            let text = format!(
                "run {} is an outlier: it took {wall}, the median run {median}; if the machine was busy with other work, record again",
                outlier.number
            );
            write_lines(out, &warning(&text))?;
        }
        self.warnings
            .iter()
            .try_for_each(|text| write_lines(out, &warning(text)))
    }

    /// Worst state of the page cache over all runs, in one line.
    fn cache(&self) -> Option<String> {
        let states: Option<Vec<CacheState>> = self.runs.iter().map(|run| run.cache).collect();
        let worst = states?
            .into_iter()
            .max_by_key(|state| (state.wrong, state.unreported))?;
        let part = percent(worst.wrong, worst.bytes);
        let (state, wrong) = if worst.cold {
            ("cold", "stayed in memory")
        } else {
            ("warm", "were missing")
        };
        let unreported = match worst.unreported {
            0 => String::new(),
            some => format!("; state of {} unknown", bytes(some)),
        };
        Some(match worst.wrong {
            0 => format!("page cache: {state} in each run (kernel report){unreported}"),
            some => format!(
                "page cache: {state}; up to {} ({part}) {wrong} in one of {} runs{unreported}",
                bytes(some),
                count(self.runs.len() as u64)
            ),
        })
    }
}

/// Runs whose wall time deviates from the median by more than a multiple of the usual deviation.
fn outliers(runs: &[Run]) -> Vec<Outlier> {
    let walls: Vec<(u32, u64)> = (runs.iter())
        .filter_map(|run| Some((run.number, run.value(Metric::Wall)?)))
        .collect();
    if walls.len() < ENOUGH {
        return Vec::new();
    }
    let of: Vec<u64> = walls.iter().map(|(_, wall)| *wall).collect();
    let middle = median(&of);
    let distances: Vec<u64> = of.iter().map(|wall| wall.abs_diff(middle)).collect();
    // The deviation is at least one percent: tiny differences between near-identical runs are not outliers.
    let usual = median(&distances).max(middle / 100).max(1) as f64;
    let unlike = walls
        .into_iter()
        .filter(|(_, wall)| 0.6745 * wall.abs_diff(middle) as f64 / usual > UNLIKE);
    let unlike = unlike.map(|(number, wall_ns)| Outlier {
        number,
        wall_ns,
        median_ns: middle,
    });
    unlike.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u32, wall_ms: u64, wrong: u64) -> Run {
        Run {
            number,
            profile: format!("p.{number}.json.gz"),
            status: 0,
            interrupted: false,
            values: [
                ("wall_ns".to_owned(), wall_ms * 1_000_000),
                ("faults".to_owned(), u64::from(number)),
            ]
            .into(),
            unknown: [("bytes_read".to_owned(), "not recorded".to_owned())].into(),
            cache: Some(CacheState {
                cold: true,
                bytes: 1_000_000,
                wrong,
                unreported: 0,
            }),
            warnings: Vec::new(),
        }
    }

    fn text(runs: Vec<Run>) -> String {
        let mut out = Vec::new();
        Repeated::new(vec!["app".into(), "-x".into()], 6, runs)
            .write(&mut out)
            .unwrap_or_default();
        String::from_utf8(out)
            .unwrap_or_default()
            .replace("\u{1b}[1m", "")
            .replace("\u{1b}[0m", "")
            .replace("\u{1b}[33m", "")
    }

    #[test]
    fn the_summary_has_median_range_and_outliers() {
        let mut runs: Vec<Run> = [100, 101, 99, 100, 250]
            .into_iter()
            .zip(1..)
            .map(|(wall, number)| run(number, wall, 5000))
            .collect();
        runs.push(Run {
            interrupted: true,
            ..run(6, 1, 0)
        });
        let text = text(runs);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "5 of 6 runs of app -x");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>().join(" "),
            "wall 100 ms 99.0 ms 250 ms 151.0 %"
        );
        assert_eq!(
            lines[3].split_whitespace().collect::<Vec<_>>().join(" "),
            "faults 3 1 5 133.3 %"
        );
        assert_eq!(
            lines[4],
            "page cache: cold; up to 5.00 kB (0.5 %) stayed in memory in one of 5 runs"
        );
        assert!(
            lines[5].starts_with("warning: run 5 is an outlier: it took 250 ms"),
            "{text}"
        );
        assert!(text.contains("warning: bytes_read is unknown: not recorded"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn few_or_equal_runs_have_no_outlier() {
        assert!(outliers(&[run(1, 1, 0), run(2, 1, 0), run(3, 90, 0)]).is_empty());
        let same: Vec<Run> = (1..9).map(|number| run(number, 1000 + u64::from(number), 0)).collect();
        assert!(outliers(&same).is_empty());
        assert!(text(vec![run(1, 5, 0)]).contains("page cache: cold in each run"));
    }
}
