//! The cost of a recording, as the recorder and the privileged helper measure it.

use serde::{Deserialize, Serialize};

use profiler_common::thinning::{GROUPS, MOST};

use crate::addr::Timestamp;

/// Maximum number of programs in a log: several times the number of our programs.
pub const MAX_PROGRAMS: usize = 256;

/// Maximum number of steps in a log.
pub const MAX_STEPS: usize = 256;

/// The cost of the recording. Each process reports its part, so a log may contain two of these.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Cost of the privileged helper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<ProcessCost>,
    /// Cost of the recorder, which runs as the user, without writing the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<ProcessCost>,
    /// Cost of the eBPF programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<ProgramCosts>,
    /// Why the cost of the programs is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_refused: Option<String>,
    /// Memory for events in transit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingCost>,
    /// Bytes that the privileged helper had written to the log by its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// What was left out to stay below a limit of cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinning: Option<Thinning>,
}

/// Resources used by one of our processes; CPU times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessCost {
    /// CPU time before the recording began.
    pub before_ns: u64,
    /// CPU time during the recording.
    pub during_ns: u64,
    /// CPU time after the recording, until the log was complete.
    pub after_ns: u64,
    /// Peak resident memory in bytes.
    pub peak_rss_bytes: u64,
}

/// Time in the eBPF programs on all CPUs, whichever thread they interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramCosts {
    /// Time during which the kernel measured, in ns.
    pub counted_ns: u64,
    /// Duration that the values are extrapolated to, in ns.
    pub of_ns: u64,
    /// Times by program.
    pub programs: Vec<ProgramCost>,
}

/// Time in one program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramCost {
    /// Its name in the eBPF object.
    pub name: String,
    /// Number of runs.
    pub runs: u64,
    /// Total time in ns.
    pub time_ns: u64,
}

/// Usage of the event ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RingCost {
    /// Its size in bytes.
    pub bytes: u64,
    /// Maximum fill level when it was drained, in bytes.
    pub peak_bytes: u64,
}

/// What was left out while the recording cost more than its limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thinning {
    /// Highest share of the recorded threads' CPU time that the eBPF programs were to take, in hundredths of a percent.
    pub limit: u32,
    /// The highest level of each group.
    pub highest: [u32; GROUPS],
    /// The last steps, times ascending.
    pub steps: Vec<ThinningStep>,
    /// Number of steps before these.
    #[serde(default)]
    pub earlier_steps: u64,
}

/// A change of what is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThinningStep {
    /// When.
    pub time: Timestamp,
    /// The share that was measured before it, in hundredths of a percent.
    pub share: u32,
    /// The new levels, by the number of the [`profiler_common::thinning::Group`].
    pub levels: [u32; GROUPS],
}

impl ThinningStep {
    /// What one fault with callers, walked wait or sample stands for, by the number of the
    /// [`profiler_common::thinning::Group`].
    pub fn divisors(&self) -> [u64; GROUPS] {
        self.levels.map(|level| 1 << level.min(MOST))
    }
}

impl Thinning {
    /// Whether all values are possible.
    pub fn fits(&self) -> bool {
        let levels = self.steps.iter().map(|step| step.levels).chain([self.highest]);
        self.limit > 0
            && self.steps.len() <= MAX_STEPS
            && self.steps.is_sorted_by_key(|step| step.time)
            && levels.flatten().all(|level| level <= MOST)
    }
}

impl Cost {
    /// Adds the values that `other` has.
    pub fn join(&mut self, other: Self) {
        self.capture = other.capture.or(self.capture);
        self.record = other.record.or(self.record);
        self.programs = other.programs.or_else(|| self.programs.take());
        self.programs_refused = other.programs_refused.or_else(|| self.programs_refused.take());
        self.ring = other.ring.or(self.ring);
        self.thinning = other.thinning.or_else(|| self.thinning.take());
        self.log_bytes = other.log_bytes.or(self.log_bytes);
    }
}

impl ProgramCosts {
    /// Total time in all programs, in ns.
    pub fn total_ns(&self) -> u64 {
        let times = self.programs.iter().map(|program| program.time_ns);
        times.fold(0, u64::saturating_add)
    }

    /// Whether the kernel measured all the time, so nothing is estimated.
    pub fn is_exact(&self) -> bool {
        self.counted_ns >= self.of_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_reports_only_its_own_cost() {
        let process_cost = |during_ns| ProcessCost {
            during_ns,
            ..ProcessCost::default()
        };
        let mut cost = Cost {
            capture: Some(process_cost(1)),
            programs: Some(ProgramCosts::default()),
            log_bytes: Some(7),
            ..Cost::default()
        };
        cost.join(Cost {
            record: Some(process_cost(2)),
            ..Cost::default()
        });
        assert_eq!(
            (cost.capture, cost.record),
            (Some(process_cost(1)), Some(process_cost(2)))
        );
        assert_eq!((cost.programs.is_some(), cost.log_bytes), (true, Some(7)));
    }
}
