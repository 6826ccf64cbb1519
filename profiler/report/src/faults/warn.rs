//! Warnings about what limits the accuracy of the tables, each with its remedy.

use super::report::FaultReport;
use crate::text::{count, fit};
use fact::{Recording, short_path};

/// The largest number of files to name.
const FILES: usize = 3;

/// The method by which faults were traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// `handle_mm_fault` itself: every fault, every time.
    Fentry,
    /// Exceptions, and the kernel's count at their end. Faults without user registers are invisible.
    Tracepoint,
    /// The kernel's count alone, without latencies.
    Perf,
}

impl Tier {
    /// The tier of a recording; `None` if faults were not traced, or by hooks that this version does not know.
    pub fn of(recording: &Recording) -> Option<Self> {
        let attached = |part: &str| {
            let mut hooks = recording.hooks.iter();
            hooks.any(|hook| hook.noun == "fault" && hook.refused.is_none() && hook.hook.contains(part))
        };
        if attached("handle_mm_fault") {
            Some(Self::Fentry)
        } else if attached("perf page-faults") {
            Some(if attached("page_fault_user") {
                Self::Tracepoint
            } else {
                Self::Perf
            })
        } else {
            None
        }
    }

    /// Its description for a report.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fentry => "tier 1 (handle_mm_fault)",
            Self::Tracepoint => "tier 2 (exceptions and perf events)",
            Self::Perf => "tier 3 (perf events: no latency)",
        }
    }
}

/// All warnings that apply to a report.
pub fn warnings(report: &FaultReport) -> Vec<String> {
    let mut warnings = Vec::new();
    let account = &report.account;
    let tier = Tier::of(&report.recording);
    if account.negative > 0 {
        warnings.push(format!(
            "fault counts do not reconcile: more faults were recorded than the kernel counted (threads: {}); please report this with the event log",
            count(account.negative)
        ));
    } else if tier == Some(Tier::Fentry) && account.not_visible != 0 {
        warnings.push(format!(
            "fault counts do not reconcile: faults are missing ({}), but tier 1 should see all; please report this with the event log",
            count(account.not_visible.unsigned_abs())
        ));
    }
    if account.lost > 0 {
        warnings.push(format!(
            "faults occurred too fast, and some were lost ({}): record fewer with `--faults file` or `--faults major`",
            count(account.lost)
        ));
    }
    let totals = &report.totals;
    if totals.untimed > 0 && tier != Some(Tier::Perf) {
        let known = count(totals.untimed);
        warnings.push(format!(
            "some faults have no recorded start ({known}): the sums do not include their latency"
        ));
    }
    let off = &report.read_around_off.rows;
    if !off.is_empty() {
        let names: Vec<String> = off
            .iter()
            .take(FILES)
            .map(|row| {
                let path = row.text("file").unwrap_or("[no file]");
                let name = fit(short_path(path), 30);
                let spot = report.read_around_spots.iter().find(|spot| spot.id == row.file());
                let most = spot.and_then(|spot| spot.function.as_deref());
                let most = most.map_or(String::new(), |function| format!(", most in {}", fit(function, 50)));
                format!("{name} ({}{most})", count(row.tally.faults))
            })
            .collect();
        let more = off.len().saturating_sub(FILES);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        warnings.push(format!(
            "the kernel had stopped reading around faults in {}{more}: after many misses, it reads single pages; read the file ahead \
             (MADV_WILLNEED) or lay it out in order of use",
            names.join(", ")
        ));
    }
    warnings
}
