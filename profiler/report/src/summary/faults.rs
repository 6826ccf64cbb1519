//! Page faults in a summary.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{StackSummary, WIDTH};
use crate::text::{columns, count, duration, fit};
use fact::account::{self, AccountCheck, FaultTier};
use fact::reduce::budget::FaultTotals;
use fact::{Tables, Walks};

/// Maximum number of files with the most faults.
const FILES: usize = 5;

/// Key numbers about the page faults of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultSummary {
    /// Hooks used to trace them.
    pub tier: Option<FaultTier>,
    /// The kernel mapped no pages around faults.
    pub exact_touch: bool,
    /// Number of faults, without failed ones.
    pub faults: u64,
    /// Faults that the kernel counts as major.
    pub major: u64,
    /// Faults that waited for a disk or for another thread's read; `None`: unknown in this tier.
    pub waited: Option<u64>,
    /// Time of these waits, in ns.
    pub waited_ns: u64,
    /// Number of failed faults.
    pub failed: u64,
    /// Number of faults that were counted, not recorded: another one represents each.
    pub represented: u64,
    /// Sum of the known latencies, in ns.
    pub time_ns: u64,
    /// Files with the most faults, with their number.
    pub files: Vec<(String, u64)>,
    /// Faults without a separate marker because they exceeded the budget.
    pub folded: u64,
    /// Completeness of their user stacks.
    pub stacks: StackSummary,
    /// Comparison with the kernel's fault counts.
    pub account: AccountCheck,
    /// Description of a mismatch with the kernel's counts.
    pub problem: Option<String>,
}

/// Why faults were not traced, although they were requested.
pub fn why_none(tables: &Tables, totals: &FaultTotals) -> Option<String> {
    if FaultTier::of(&tables.recording).is_some() || totals.faults + totals.failed > 0 {
        return None;
    }
    let hooks = tables.recording.hooks.iter().filter(|hook| hook.noun == "fault");
    // The last tier is tried last, unless another one was requested.
    let (hook, reason) = hooks
        .filter_map(|hook| Some((&hook.hook, hook.refused.as_deref()?)))
        .next_back()?;
    let remedy = if hook.starts_with("perf") {
        "`ngmi doctor` shows what this machine supports"
    } else {
        "record without --fault-source"
    };
    Some(format!(
        "no page faults were recorded: the kernel refused {hook} ({reason}); {remedy}"
    ))
}

impl FaultSummary {
    /// Summarizes the faults; `None` if they were not traced.
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
            represented: totals.represented,
            time_ns: totals.time,
            files,
            folded: folded.fold(0, |sum, folded| sum.saturating_add(folded.faults)),
            stacks: StackSummary::new(&tables.recording.fault_stack_ends, &Walks::default()),
            problem: account.problem(tables),
            account,
        })
    }

    /// One line, and a second one if the counts do not match the kernel's.
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
        if self.represented > 0 {
            parts.push(format!("{} counted only", count(self.represented)));
        }
        if self.exact_touch {
            parts.push("exact touch".into());
        }
        let head = format!("faults:  {} ({})", count(self.faults), parts.join(", "));
        let files = self.files.iter();
        let files = files.map(|(file, faults)| format!("{} {}", fit(file, 20), count(*faults)));
        let failed = (self.failed > 0).then(|| format!("{} failed", count(self.failed)));
        // Only whole items: a truncated number would be wrong.
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
