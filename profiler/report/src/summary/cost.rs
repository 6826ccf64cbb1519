//! The recording's own cost in a summary.

use std::cmp::Reverse;

use profiler_common::thinning::GROUPS;
use serde::{Deserialize, Serialize};

use super::WIDTH;
use crate::text::{bytes, columns, duration, percent};
use base::addr::{Timestamp, ns};
use base::event::{Cost, ProcessCost, Thinning, ThinningStep};
use base::plural::counted;
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
    /// What was left out to keep a limit; `None`: there was none.
    pub limited: Option<Limited>,
}

/// What was left out while the recording cost more than its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    /// The limit: a share of the recorded threads' CPU time, in hundredths of a percent.
    pub max_overhead_hundredths: u32,
    /// The highest level of each kind.
    pub highest: LeftOut,
    /// The last changes, by time.
    pub steps: Vec<LimitedStep>,
    /// Number of changes before these.
    pub earlier_steps: u64,
}

/// A change of what is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedStep {
    /// Since the recording's start, in ns.
    pub time_ns: u64,
    /// The share that was measured before it, in hundredths of a percent.
    pub share_hundredths: u32,
    /// What is left out from then on.
    #[serde(flatten)]
    pub left_out: LeftOut,
}

/// How much is left out: one in N is not; 1: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Callers of short page faults.
    pub faults: u64,
    /// Walks of frequent waits.
    pub waits: u64,
    /// Samples.
    pub samples: u64,
}

impl LeftOut {
    fn new([faults, waits, samples]: [u64; GROUPS]) -> Self {
        Self { faults, waits, samples }
    }
}

impl Limited {
    fn new(thinning: &Thinning, zero: Timestamp) -> Self {
        let highest = ThinningStep {
            levels: thinning.highest,
            ..ThinningStep::default()
        };
        let step = |step: &ThinningStep| LimitedStep {
            time_ns: ns(step.time.since(zero)),
            share_hundredths: step.share,
            left_out: LeftOut::new(step.divisors()),
        };
        Self {
            max_overhead_hundredths: thinning.limit,
            highest: LeftOut::new(highest.divisors()),
            steps: thinning.steps.iter().map(step).collect(),
            earlier_steps: thinning.earlier_steps,
        }
    }

    /// The line of the summary, where `stacks` page faults have no callers. `None`: nothing was left out.
    pub(super) fn line(&self, stacks: u64) -> Option<String> {
        let faults = (stacks > 0).then(|| format!("no callers of {}", counted(stacks, "fault")));
        let waits = (self.highest.waits > 1).then(|| "fewer walks of waits".to_owned());
        let samples = (self.highest.samples > 1).then(|| format!("down to 1/{} of samples", self.highest.samples));
        let parts: Vec<String> = faults.into_iter().chain(waits).chain(samples).collect();
        let limit = f64::from(self.max_overhead_hundredths) / 100.0;
        (!parts.is_empty()).then(|| format!("limited: --max-overhead {limit}%: {}", parts.join(", ")))
    }
}

impl CostSummary {
    /// Cost of a recording; `None` if unknown, e.g. because the recorder was killed.
    pub fn new(recording: &Recording) -> Option<Self> {
        let mut cost = recording.cost.clone()?;
        if let Some(costs) = &mut cost.programs {
            costs.programs.sort_by_key(|program| Reverse(program.time_ns));
        }
        let limited = cost.thinning.take();
        let programs = cost.programs.as_ref();
        Some(Self {
            limited: limited.map(|thinning| Limited::new(&thinning, recording.start)),
            programs_ns: programs.map(base::event::ProgramCosts::total_ns),
            programs_exact: programs.is_some_and(base::event::ProgramCosts::is_exact),
            recorded_cpu_ns: recording.cpu_time_seen,
            conversion_ns: None,
            cost,
        })
    }

    /// One line that starts with `head`: time in our programs, as a share of the recorded threads' CPU time unless it is longer, CPU
    /// time and memory of the recorder, and size of the log. The profile's panel and the JSON output have more details.
    pub fn line(&self, head: &str) -> String {
        let processes = [self.cost.capture, self.cost.record];
        let sum = |of: fn(&ProcessCost) -> u64| processes.iter().flatten().map(of).fold(0, u64::saturating_add);
        let about = if self.programs_exact { "" } else { "~" };
        let share = (self.programs_ns.filter(|_| self.recorded_cpu_ns > 0)).map(|time| {
            // More is mostly that of other processes: a share would say nothing.
            if time > self.recorded_cpu_ns {
                return format!("{about}{} eBPF", duration(time));
            }
            format!("{about}{} CPU", percent(time, self.recorded_cpu_ns))
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_named() {
        let of = |highest| {
            let thinning = Thinning {
                limit: 250,
                highest,
                ..Thinning::default()
            };
            Limited::new(&thinning, Timestamp(0))
        };
        assert_eq!(of([0, 0, 0]).line(0), None);
        assert_eq!(
            of([1, 0, 0]).line(1234).unwrap(),
            "limited: --max-overhead 2.5%: no callers of 1,234 faults"
        );
        assert_eq!(
            of([1, 0, 0]).line(1).unwrap(),
            "limited: --max-overhead 2.5%: no callers of 1 fault"
        );
        let line = of([6, 2, 1]).line(1_234).unwrap();
        assert_eq!(
            line,
            "limited: --max-overhead 2.5%: no callers of 1,234 faults, fewer walks of waits, down to 1/2 of samples"
        );
    }
}
