//! Time on critical paths, by reason: of the command's first thread as totals, and of threads that a budget names.

use std::collections::BTreeMap;

use super::names::Pids;
use super::{By, Metric, MetricValue, MetricValues, Metrics, Place};
use crate::path::PathFacts;
use crate::path::lanes::Lanes;
use crate::path::select::{default_thread, longest};
use crate::path::walk::walk;
use crate::select::Span;
use crate::text::count;
use base::addr::ns;
use fact::{Tables, ThreadId};

/// What the paths of a recording are followed through.
#[derive(Debug)]
pub struct Paths {
    lanes: Lanes,
    /// The thread whose path the totals are.
    first: Option<ThreadId>,
    /// Waits beyond the limit: no path is followed then.
    left_out: u64,
}

/// The path of the thread that a pattern names: of several, the one that lived longest, as `ngmi path` chooses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PathOf {
    /// Number of threads that match.
    threads: usize,
    values: MetricValues,
}

impl Paths {
    /// Prepares the paths.
    pub fn new(tables: &Tables, facts: PathFacts) -> Self {
        let left_out = facts.left_out();
        Self {
            first: default_thread(tables, &facts),
            lanes: if left_out == 0 {
                facts.lanes(tables)
            } else {
                Lanes::default()
            },
            left_out,
        }
    }

    /// The times on the path of the one of these threads that lived longest; zero if none lived then.
    fn of(&self, tables: &Tables, threads: &[ThreadId], span: Span) -> MetricValues {
        let mut values = MetricValues::default();
        let longest = longest(tables, threads, span).filter(|(_, window)| window.start < window.end);
        if let Some((thread, window)) = longest {
            for piece in walk(&self.lanes, thread, window) {
                values.add(Metric::Path(piece.spent.kind), ns(piece.end.since(piece.start)));
            }
        }
        values
    }
}

impl Metrics {
    /// Adds the critical paths of the command's first thread, or the one that ran longest, and of those that the
    /// patterns name, in a time range.
    #[must_use]
    pub fn with_paths<'p>(
        mut self,
        tables: &Tables,
        paths: &Paths,
        span: Option<Span>,
        patterns: impl IntoIterator<Item = &'p str>,
    ) -> Self {
        let span = span.unwrap_or_default();
        let first = paths.of(tables, paths.first.as_slice(), span);
        self.places.entry(Place::Total).or_default().merge(&first);
        let pids = Pids::of(tables);
        let names = tables.threads.iter().map(|thread| {
            let process = tables.processes.get(thread.process.index());
            let process = process.map_or("", |process| process.name.as_str());
            Place::Thread(pids.taken_out(process), pids.taken_out(&thread.name))
        });
        let names: Vec<Place> = names.collect();
        let of_pattern = |pattern: &str| {
            let threads = (0..).map(ThreadId).zip(&names);
            let threads = threads.filter(|(_, name)| name.fits(pattern)).map(|(id, _)| id);
            let threads: Vec<ThreadId> = threads.collect();
            PathOf {
                threads: threads.len(),
                values: paths.of(tables, &threads, span),
            }
        };
        let of_patterns = patterns
            .into_iter()
            .map(|pattern| (pattern.to_owned(), of_pattern(pattern)));
        self.paths = Some(of_patterns.collect::<BTreeMap<_, _>>());
        if paths.left_out > 0 {
            let why = format!(
                "too many waits ({} beyond the limit); record a shorter time, or see `ngmi path`",
                count(paths.left_out)
            );
            for metric in Metric::of_path() {
                for by in [By::Total, By::Thread] {
                    self.unknown.entry((by, metric)).or_insert_with(|| why.clone());
                }
            }
        }
        self
    }

    /// The number of threads that match a pattern, and a metric of the path that [`Self::with_paths`] added for it.
    pub(super) fn sum_of_path(&self, pattern: &str, metric: Metric) -> (usize, MetricValue) {
        let of = self
            .paths
            .as_ref()
            .and_then(|paths| paths.get(pattern).copied())
            .unwrap_or_default();
        let unknown = self.unknown(By::Thread, metric);
        let at_least = of.values.get(metric);
        (of.threads, MetricValue { at_least, unknown })
    }
}
