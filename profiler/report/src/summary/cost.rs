//! The recording's own cost in a summary.

use std::cmp::Reverse;

use profiler_common::thinning::{Group, MOST};
use serde::{Deserialize, Serialize};

use super::WIDTH;
use crate::text::{bytes, columns, count, duration, percent};
use base::event::{Cost, ProcessCost, Thinning};
use fact::Recording;

/// Cost of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostSummary {
    /// Measured cost; programs are sorted by time.
    #[serde(flatten)]
    pub cost: Cost,
    /// Time in our eBPF programs in ns, in any thread. Divided by [`Self::recorded_cpu_ns`], it estimates the slowdown of the
    /// recorded threads; the kernel's overhead of calling the programs is not included.
    pub programs_ns: Option<u64>,
    /// `programs_ns` is exact, not estimated.
    pub programs_exact: bool,
    /// On-CPU time of the recorded threads, in ns.
    pub recorded_cpu_ns: u64,
    /// CPU time for creating the profile, in ns; set by its writer.
    pub conversion_ns: Option<u64>,
}

/// What was left out to stay below the limit: `stacks` of page faults, and the highest level of the others. `None`: nothing.
pub(crate) fn thinning_text(thinning: &Thinning, stacks: u64) -> Option<String> {
    let most = |group: Group| {
        let levels = thinning.steps.iter().map(|step| step.levels[group as usize]);
        levels
            .max()
            .filter(|level| *level > 0)
            .map(|level| 1_u64 << level.min(MOST))
    };
    let faults = (stacks > 0).then(|| format!("no callers of {} page faults", count(stacks)));
    let waits = most(Group::Wait).map(|times| format!("1/{times} of frequent waits walked"));
    let samples = most(Group::Sample).map(|times| format!("1/{times} of samples"));
    let parts: Vec<String> = faults.into_iter().chain(waits).chain(samples).collect();
    let limit = f64::from(thinning.limit) / 100.0;
    (!parts.is_empty()).then(|| format!("{} (--max-overhead {limit}%)", parts.join(", ")))
}

impl CostSummary {
    /// Cost of a recording; `None` if unknown, e.g. because the recorder was killed.
    pub fn new(recording: &Recording) -> Option<Self> {
        let mut cost = recording.cost.clone()?;
        if let Some(costs) = &mut cost.programs {
            costs.programs.sort_by_key(|program| Reverse(program.time_ns));
        }
        let programs = cost.programs.as_ref();
        Some(Self {
            programs_ns: programs.map(base::event::ProgramCosts::total_ns),
            programs_exact: programs.is_some_and(base::event::ProgramCosts::is_exact),
            recorded_cpu_ns: recording.cpu_time_seen,
            conversion_ns: None,
            cost,
        })
    }

    /// One line that starts with `head`: time in our programs as a share of the recorded threads' CPU time, CPU time and memory of
    /// the recorder, and size of the log. The profile's panel and the JSON output have more details.
    pub fn line(&self, head: &str) -> String {
        let processes = [self.cost.capture, self.cost.record];
        let sum = |of: fn(&ProcessCost) -> u64| processes.iter().flatten().map(of).fold(0, u64::saturating_add);
        let about = if self.programs_exact { "" } else { "~" };
        let share = (self.programs_ns.filter(|_| self.recorded_cpu_ns > 0))
            .map(|time| format!("{about}{} CPU", percent(time, self.recorded_cpu_ns)));
        let recorder = processes.iter().flatten().next().map(|_| {
            let time = sum(|process| process.during_ns.saturating_add(process.after_ns));
            let time = time.saturating_add(self.conversion_ns.unwrap_or(0));
            let memory = sum(|process| process.peak_rss_bytes);
            format!("recorder {}, {}", duration(time), bytes(memory))
        });
        let log = self.cost.log_bytes.map(|len| format!("log {}", bytes(len)));
        let parts = share.into_iter().chain(recorder).chain(log);
        parts.fold(head.to_owned(), |line, part| {
            let separator = if line == head { "" } else { ", " };
            let longer = format!("{line}{separator}{part}");
            if columns(&longer) <= WIDTH { longer } else { line }
        })
    }
}
