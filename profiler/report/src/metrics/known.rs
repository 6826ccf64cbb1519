//! Determines which metrics of a recording are unknown or incomplete, and why: a hook was refused or not requested, or rows
//! were folded into sums.

use std::collections::BTreeMap;

use super::gather::Facts;
use super::{By, Metric};
use crate::summary;
use crate::text::count;
use base::plural;
use fact::account::{FaultTier, check, misses_faults};
use fact::{Recording, Tables, WaitReason};
use profiler_common::Loss;

/// Remedy for folded rows.
const LOG: &str = "use the event log instead (`ngmi record --keep-events`)";
const OF_FAULTS: [Metric; 6] = [
    Metric::Faults,
    Metric::MajorFaults,
    Metric::FaultWait,
    Metric::CowPages,
    Metric::RelocatedPages,
    Metric::WastedReadahead,
];

/// Collects reasons; the first one per metric is kept.
#[derive(Default)]
struct Reasons(BTreeMap<(By, Metric), String>);

impl Reasons {
    fn add(&mut self, by: impl IntoIterator<Item = By>, metrics: &[Metric], why: &str) {
        for by in by {
            for metric in metrics.iter().filter(|metric| by.has_metric(**metric)) {
                self.0.entry((by, *metric)).or_insert_with(|| why.to_owned());
            }
        }
    }
}

/// Reasons why metrics are unknown or incomplete. Sums have no times, so less is known of a part of the time.
pub fn unknown(tables: &Tables, facts: &Facts, is_part: bool) -> BTreeMap<(By, Metric), String> {
    let mut reasons = Reasons::default();
    let all_waits = WaitReason::ALL.map(Metric::Wait);
    if let Some(why) = &facts.foreign {
        let all: Vec<Metric> = Metric::all().collect();
        let but_cpu: Vec<Metric> = all
            .iter()
            .copied()
            .filter(|metric| !matches!(metric, Metric::Cpu))
            .collect();
        reasons.add(By::ALL, &but_cpu, why);
        reasons.add([By::Phase], &all, why);
        return reasons.0;
    }
    damage(&tables.recording, &mut reasons);
    callers(&tables.recording, &mut reasons);
    faults(tables, facts, is_part, &mut reasons);
    waits(tables, facts, &all_waits, is_part, &mut reasons);
    requests(&tables.recording, &mut reasons);
    if facts.faults.rows.is_empty() {
        let all: Vec<Metric> = Metric::all().collect();
        reasons.add(
            [By::Phase],
            &all,
            "phases are derived from page faults, but none were recorded",
        );
    }
    reasons.0
}

/// A damaged log lacks events of every kind.
fn damage(recording: &Recording, reasons: &mut Reasons) {
    if let Some(chunks) = recording.lost(Loss::LogDamaged) {
        let damaged = plural::loss(Loss::LogDamaged.name(), chunks);
        let why = format!("the event log is damaged or cut off ({damaged}); record again");
        reasons.add(By::ALL, &Metric::all().collect::<Vec<_>>(), &why);
    }
}

/// Why no hook for an event kind was attached; `None` if one was.
fn not_watched(recording: &Recording, noun: &str, flag: &str) -> Option<String> {
    let hooks = || recording.hooks.iter().filter(|hook| hook.noun == noun);
    if hooks().any(|hook| hook.refused.is_none()) {
        return None;
    }
    let refused = hooks().find_map(|hook| Some((&hook.hook, hook.refused.as_deref()?)));
    Some(match refused {
        Some((hook, why)) => format!("the kernel refused {hook} ({why}); run `ngmi doctor` for the remedy"),
        None => format!("not recorded; record without `{flag} off`"),
    })
}

/// Faults without callers: their phase is unknown, and may be their function.
fn callers(recording: &Recording, reasons: &mut Reasons) {
    let thinned = summary::stacks::thinned(&recording.fault_stack_ends);
    if thinned > 0 {
        let why = format!(
            "the callers of some page faults were left out ({}); record with `--max-overhead off`",
            count(thinned)
        );
        let all: Vec<Metric> = Metric::all().collect();
        reasons.add([By::Phase], &all, &why);
        reasons.add([By::Function], &OF_FAULTS, &why);
    }
}

fn faults(tables: &Tables, facts: &Facts, is_part: bool, reasons: &mut Reasons) {
    let recording = &tables.recording;
    let tier = FaultTier::of(recording);
    let is_watched = tier.is_some() || !facts.faults.rows.is_empty() || recording.faults_seen > 0;
    if let (false, Some(why)) = (is_watched, not_watched(recording, "fault", "--faults")) {
        return reasons.add(By::ALL, &OF_FAULTS, &why);
    }
    if tier == Some(FaultTier::Perf) {
        let why = "tier 3 hooks report neither times nor causes of page faults; run `ngmi doctor` to see what this machine supports";
        reasons.add(
            By::ALL,
            &[Metric::FaultWait, Metric::CowPages, Metric::RelocatedPages],
            why,
        );
    }
    let unknown = facts.may_have_copied;
    if unknown > 0 {
        let why = format!("the result is unknown for {} of the faults", count(unknown));
        reasons.add(By::ALL, &[Metric::CowPages], &why);
    }
    let filtered = check(tables).filtered;
    if filtered > 0 {
        let why = format!(
            "faults excluded by `--faults`: {}; record with `--faults all`",
            count(filtered)
        );
        let but_major = OF_FAULTS.map(|metric| {
            if metric == Metric::MajorFaults {
                Metric::Faults
            } else {
                metric
            }
        });
        reasons.add(By::ALL, &but_major, &why);
    }
    if filtered == 0 && misses_faults(tables) {
        let why = "page faults were lost: pages that only they mapped would count as wasted";
        reasons.add(By::ALL, &[Metric::WastedReadahead], why);
    }
    if facts.faults.pages.hides_mapped() {
        let why = "it is unknown which pages some faults mapped: the recording is of an earlier version, or a page table \
                   could not be read";
        reasons.add(By::ALL, &[Metric::WastedReadahead], why);
    }
    let mut reads = recording.hooks.iter();
    let refused = reads.find_map(|hook| {
        let of_cache = hook.noun == "fault" && hook.hook.contains("add_to_page_cache");
        hook.refused.as_deref().filter(|_| of_cache)
    });
    if let Some(why) = refused {
        let why = format!("the kernel refused the hook for reads into the page cache ({why})");
        reasons.add(By::ALL, &[Metric::WastedReadahead], &why);
    }
    let folded = (recording.folded_faults.iter()).fold(0_u64, |sum, folded| sum.saturating_add(folded.faults));
    if folded > 0 {
        let why = format!(
            "faults aggregated in the profile (not listed individually): {}; {LOG}",
            count(folded)
        );
        let by = [By::Phase, By::File, By::Section, By::Function].into_iter();
        reasons.add(by.chain(of_part(is_part)), &OF_FAULTS, &why);
        let of_pages = [Metric::RelocatedPages, Metric::WastedReadahead];
        reasons.add([By::Total, By::Thread], &of_pages, &why);
    }
    if !recording.folded_reads.is_empty() {
        let why = format!("some reads are aggregated in the profile (not listed individually); {LOG}");
        reasons.add(By::ALL, &[Metric::WastedReadahead], &why);
    }
    with_merged_threads(facts, is_part, reasons);
}

/// Adds the reason for reads without a known reader: very long recordings do not keep the reader of each page.
fn with_merged_threads(facts: &Facts, is_part: bool, reasons: &mut Reasons) {
    if is_part {
        let why = "between markers, wasted readahead is not known by section";
        reasons.add([By::Section], &[Metric::WastedReadahead], why);
    }
    let by_whom = [By::Phase, By::Function, By::Thread].into_iter();
    let by_whom = by_whom.chain([By::Total, By::File].into_iter().filter(|_| is_part));
    let reads = facts.faults.pages.reads_left_out();
    if reads > 0 {
        let why = format!(
            "reads without a known reader: {}; their faults were lost, or there are too many; record for a shorter time",
            count(reads)
        );
        reasons.add(by_whom, &[Metric::WastedReadahead], &why);
    }
}

fn waits(tables: &Tables, facts: &Facts, all: &[Metric], is_part: bool, reasons: &mut Reasons) {
    let recording = &tables.recording;
    let of_path: Vec<Metric> = Metric::of_path().collect();
    // `--off-cpu off` leaves only the hook that CPU time needs.
    let mut hooks = recording.hooks.iter();
    let is_watched = hooks.any(|hook| hook.hook.contains("sched_wak") && hook.refused.is_none());
    if !is_watched && facts.waits.rows.is_empty() && recording.waits_seen == 0 {
        let why = not_watched(recording, "switch", "--off-cpu")
            .unwrap_or_else(|| "no waits were recorded; record with `--off-cpu all`".to_owned());
        reasons.add(By::ALL, &of_path, &why);
        return reasons.add(By::ALL, all, &why);
    }
    let folded = (recording.folded_waits.iter()).fold(0_u64, |sum, folded| sum.saturating_add(folded.waits));
    if folded > 0 {
        let why = format!(
            "waits aggregated in the profile (not listed individually): {}; {LOG}",
            count(folded)
        );
        let by = [By::Phase, By::File, By::Function].into_iter();
        reasons.add(by.chain(of_part(is_part)), all, &why);
        reasons.add(By::ALL, &of_path, &why);
    }
}

/// What a sum without times leaves unknown in addition.
fn of_part(is_part: bool) -> impl Iterator<Item = By> {
    [By::Total, By::Thread].into_iter().filter(move |_| is_part)
}

fn requests(recording: &Recording, reasons: &mut Reasons) {
    if let (0, Some(why)) = (recording.requests_seen, not_watched(recording, "block", "--block")) {
        return reasons.add(By::ALL, &[Metric::BytesRead], &why);
    }
    let folded = (recording.folded_requests.iter()).fold(0_u64, |sum, folded| sum.saturating_add(folded.requests));
    if folded > 0 {
        let why = format!(
            "requests aggregated in the profile (not listed individually): {}; {LOG}",
            count(folded)
        );
        reasons.add(By::ALL, &[Metric::BytesRead], &why);
    }
}
