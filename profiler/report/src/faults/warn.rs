//! Warnings about what limits the accuracy of the tables, each with its remedy.

use super::report::FaultReport;
use crate::summary::stacks::thinned;
use crate::text::{count, fit};
use fact::account::FaultTier;
use fact::short_path;

/// The largest number of files to name.
const FILES: usize = 3;

/// All warnings that apply to a report.
pub fn warnings(report: &FaultReport) -> Vec<String> {
    let mut warnings = Vec::new();
    let account = &report.account;
    let tier = FaultTier::of(&report.recording);
    if account.negative > 0 {
        warnings.push(format!(
            "fault counts do not reconcile: more faults were recorded than the kernel counted (threads: {}); please report this with the event log",
            count(account.negative)
        ));
    } else if tier == Some(FaultTier::Fentry) && account.not_visible != 0 {
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
    if totals.untimed > 0 && tier != Some(FaultTier::Perf) {
        let known = count(totals.untimed);
        warnings.push(format!(
            "some faults have no recorded start ({known}): the sums do not include their latency"
        ));
    }
    if totals.represented > 0 {
        let exact = if totals.faults == report.faults_in_file {
            "Totals are exact; where they happened is estimated"
        } else {
            "Which of them are selected here is estimated"
        };
        warnings.push(format!(
            "{} of these faults were counted, not recorded: writes to anonymous memory. {exact} from those that were \
             recorded (`--faults all` records each)",
            count(totals.represented)
        ));
    }
    let thinned = thinned(&report.recording.fault_stack_ends);
    if thinned > 0 {
        warnings.push(format!(
            "the callers of some page faults were left out ({}): phases, `--under` and sums with callees are too low, and a \
             function without a name may have rows of its own; record with `--max-overhead off`",
            count(thinned)
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
