//! What a summary says of page faults.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{StackSummary, WIDTH};
use crate::fact::account::{self, AccountCheck, FaultTier};
use crate::fact::budget::FaultTotals;
use crate::fact::{Tables, Walks};
use crate::report::text::{columns, count, duration, fit};

/// Files with the most faults that are told.
const FILES: usize = 5;

/// Page faults of a recording in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultSummary {
    /// How they were watched.
    pub tier: Option<FaultTier>,
    /// The kernel mapped no pages around a fault.
    pub exact_touch: bool,
    /// How many, failed ones apart.
    pub faults: u64,
    /// The kernel counts them as major.
    pub major: u64,
    /// They waited for a disk or for somebody else's read; `None`: the tier can't tell.
    pub waited: Option<u64>,
    /// How long, in ns.
    pub waited_ns: u64,
    /// They failed.
    pub failed: u64,
    /// Sum of the known latencies, in ns.
    pub time_ns: u64,
    /// Files with the most faults, and how many.
    pub files: Vec<(String, u64)>,
    /// Faults that have no marker of their own: the budget had no room.
    pub folded: u64,
    /// How their user stacks ended.
    pub stacks: StackSummary,
    /// Whether they add up to the kernel's count.
    pub account: AccountCheck,
    /// What is wrong with the account.
    pub problem: Option<String>,
}

impl FaultSummary {
    /// `None`: faults were not watched.
    pub fn new(tables: &Tables, totals: &FaultTotals) -> Option<Self> {
        let tier = FaultTier::of(&tables.recording);
        if tier.is_none() && totals.faults + totals.failed == 0 {
            return None;
        }
        let named = totals.by_file.iter().filter_map(|(id, faults)| {
            let file = tables.files.get(id.index())?;
            Some((file.short_name(), *faults))
        });
        let mut files: Vec<(String, u64)> = named.collect();
        files.sort_unstable_by(|(a, a_faults), (b, b_faults)| (Reverse(a_faults), a).cmp(&(Reverse(b_faults), b)));
        files.truncate(FILES);
        let account = account::check(tables);
        let folded = tables.recording.folded_faults.iter();
        Some(Self {
            tier,
            exact_touch: account::is_exact_touch(&tables.recording),
            faults: totals.faults,
            major: totals.major,
            waited: (totals.waits_known > 0).then_some(totals.waited),
            waited_ns: totals.waited_time,
            failed: totals.failed,
            time_ns: totals.time,
            files,
            folded: folded.fold(0, |sum, folded| sum.saturating_add(folded.faults)),
            stacks: StackSummary::new(&tables.recording.fault_stack_ends, &Walks::default()),
            problem: account.problem(tables),
            account,
        })
    }

    /// One line, and another one if the account does not close.
    pub fn lines(&self) -> Vec<String> {
        let mut parts = vec![format!("{} major", count(self.major))];
        match self.waited {
            Some(0) => parts.push("none waited for disk".into()),
            Some(waited) => parts.push(format!(
                "{} waited {} for disk",
                count(waited),
                duration(self.waited_ns)
            )),
            None => {}
        }
        if self.exact_touch {
            parts.push("exact touch".into());
        }
        let head = format!("faults:  {} ({})", count(self.faults), parts.join(", "));
        let files = self.files.iter();
        let files = files.map(|(file, faults)| format!("{} {}", fit(file, 20), count(*faults)));
        let failed = (self.failed > 0).then(|| format!("{} failed", count(self.failed)));
        // As many as fit: a figure that is cut is none.
        let line = failed.into_iter().chain(files).fold(head, |line, item| {
            let longer = format!("{line}, {item}");
            if columns(&longer) <= WIDTH { longer } else { line }
        });
        let problem = self.problem.iter();
        [line]
            .into_iter()
            .chain(problem.map(|problem| format!("faults:  {problem}")))
            .collect()
    }
}
