//! What a recording itself cost, as each of its halves measured it.

use serde::{Deserialize, Serialize};

/// Most programs that a log may tell of: several times those that we have.
pub const MAX_PROGRAMS: usize = 256;

/// What the recording cost. Each half tells its part, so that a log may hold two of these.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Of the privileged half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<HalfCost>,
    /// Of the half that runs as the user, without making the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<HalfCost>,
    /// Of the programs in the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<ProgramCosts>,
    /// Why that of the programs is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_refused: Option<String>,
    /// Of memory for what was on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingCost>,
    /// Bytes that the privileged half had written to the log at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
}

/// What a process of ours used, CPU times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HalfCost {
    /// Before the recording began.
    pub before_ns: u64,
    /// While it ran.
    pub during_ns: u64,
    /// Afterwards, until the log was complete.
    pub after_ns: u64,
    /// Peak of resident memory, in bytes.
    pub peak_rss_bytes: u64,
}

/// Time in the programs in the kernel, on all CPUs, whoever ran there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramCosts {
    /// For how long the kernel counted, in ns.
    pub counted_ns: u64,
    /// Of how long, in ns: figures stand for all of it.
    pub of_ns: u64,
    /// By program.
    pub programs: Vec<ProgramCost>,
}

/// Time in one program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramCost {
    /// Its name in the eBPF object.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// How long, in ns.
    pub time_ns: u64,
}

/// How full the ring of events was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RingCost {
    /// Its size in bytes.
    pub bytes: u64,
    /// The most that it held when it was emptied, in bytes.
    pub peak_bytes: u64,
}

impl Cost {
    /// Takes over what `other` knows.
    pub fn join(&mut self, other: Self) {
        self.capture = other.capture.or(self.capture);
        self.record = other.record.or(self.record);
        self.programs = other.programs.or_else(|| self.programs.take());
        self.programs_refused = other.programs_refused.or_else(|| self.programs_refused.take());
        self.ring = other.ring.or(self.ring);
        self.log_bytes = other.log_bytes.or(self.log_bytes);
    }
}

impl ProgramCosts {
    /// Time in all programs, in ns.
    pub fn total_ns(&self) -> u64 {
        let times = self.programs.iter().map(|program| program.time_ns);
        times.fold(0, u64::saturating_add)
    }

    /// The kernel counted all the time: nothing is estimated.
    pub fn is_exact(&self) -> bool {
        self.counted_ns >= self.of_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_tells_its_part_and_no_more() {
        let half = |during_ns| HalfCost {
            during_ns,
            ..HalfCost::default()
        };
        let mut cost = Cost {
            capture: Some(half(1)),
            programs: Some(ProgramCosts::default()),
            log_bytes: Some(7),
            ..Cost::default()
        };
        cost.join(Cost {
            record: Some(half(2)),
            ..Cost::default()
        });
        assert_eq!((cost.capture, cost.record), (Some(half(1)), Some(half(2))));
        assert_eq!((cost.programs.is_some(), cost.log_bytes), (true, Some(7)));
    }
}
