//! Which figures a recording can't tell, or not all of, and why: a hook was refused or not asked for, rows were folded into sums.

use std::collections::BTreeMap;

use super::gather::Facts;
use super::{By, Metric};
use crate::fact::account::{FaultTier, check, misses_faults};
use crate::fact::{Recording, Tables, WaitReason};
use crate::report::text::count;

/// What every remedy for folded rows is.
const LOG: &str = "name the event log instead (`ngmi record --keep-events`)";
const OF_FAULTS: [Metric; 6] = [
    Metric::Faults,
    Metric::MajorFaults,
    Metric::FaultWait,
    Metric::CowPages,
    Metric::RelocatedPages,
    Metric::WastedReadahead,
];

/// Reasons under construction; the first one stays.
#[derive(Default)]
struct Reasons(BTreeMap<(By, Metric), String>);

impl Reasons {
    fn add(&mut self, by: impl IntoIterator<Item = By>, metrics: &[Metric], why: &str) {
        for by in by {
            for metric in metrics.iter().filter(|metric| by.tells(**metric)) {
                self.0.entry((by, *metric)).or_insert_with(|| why.to_owned());
            }
        }
    }
}

/// Why figures are not known.
pub fn unknown(tables: &Tables, facts: &Facts) -> BTreeMap<(By, Metric), String> {
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
    faults(tables, facts, &mut reasons);
    waits(tables, facts, &all_waits, &mut reasons);
    requests(&tables.recording, &mut reasons);
    if facts.faults.rows.is_empty() {
        let all: Vec<Metric> = Metric::all().collect();
        reasons.add(
            [By::Phase],
            &all,
            "phases are told by page faults, of which none was recorded",
        );
    }
    reasons.0
}

/// Why no hook of a noun was attached; `None`: one was.
fn not_watched(recording: &Recording, noun: &str, flag: &str) -> Option<String> {
    let hooks = || recording.hooks.iter().filter(|hook| hook.noun == noun);
    if hooks().any(|hook| hook.refused.is_none()) {
        return None;
    }
    let refused = hooks().find_map(|hook| Some((&hook.hook, hook.refused.as_deref()?)));
    Some(match refused {
        Some((hook, why)) => format!("the kernel refused {hook} ({why}); `ngmi doctor` says what to do"),
        None => format!("not recorded; leave out `{flag} off`"),
    })
}

fn faults(tables: &Tables, facts: &Facts, reasons: &mut Reasons) {
    let recording = &tables.recording;
    let tier = FaultTier::of(recording);
    let is_watched = tier.is_some() || !facts.faults.rows.is_empty() || recording.faults_seen > 0;
    if let (false, Some(why)) = (is_watched, not_watched(recording, "fault", "--faults")) {
        return reasons.add(By::ALL, &OF_FAULTS, &why);
    }
    if tier == Some(FaultTier::Perf) {
        let why = "the hooks of tier 3 tell no times and no causes of page faults; `ngmi doctor` says what this machine allows";
        reasons.add(
            By::ALL,
            &[Metric::FaultWait, Metric::CowPages, Metric::RelocatedPages],
            why,
        );
    }
    let unknown = facts.may_have_copied;
    if unknown > 0 {
        let why = format!("what {} of the faults brought was not seen", count(unknown));
        reasons.add(By::ALL, &[Metric::CowPages], &why);
    }
    let filtered = check(tables).filtered;
    if filtered > 0 {
        let why = format!(
            "{} faults were left out on request; record with `--faults all`",
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
        let why = "page faults were lost: what they touched looks as if nothing had";
        reasons.add(By::ALL, &[Metric::WastedReadahead], why);
    }
    let mut reads = recording.hooks.iter();
    let refused = reads.find_map(|hook| {
        let of_cache = hook.noun == "fault" && hook.hook.contains("add_to_page_cache");
        hook.refused.as_deref().filter(|_| of_cache)
    });
    if let Some(why) = refused {
        let why = format!("the kernel refused the hook that sees what is read into the page cache ({why})");
        reasons.add(By::ALL, &[Metric::WastedReadahead], &why);
    }
    let folded = (recording.folded_faults.iter()).fold(0_u64, |sum, folded| sum.saturating_add(folded.faults));
    if folded > 0 {
        let why = format!("{} faults are only sums in the profile; {LOG}", count(folded));
        reasons.add([By::Phase, By::File, By::Section, By::Function], &OF_FAULTS, &why);
        let of_pages = [Metric::RelocatedPages, Metric::WastedReadahead];
        reasons.add([By::Total, By::Thread], &of_pages, &why);
    }
    if !recording.folded_reads.is_empty() {
        let why = format!("some of what was read is only sums in the profile; {LOG}");
        reasons.add(By::ALL, &[Metric::WastedReadahead], &why);
    }
    crowded(facts, reasons);
}

/// Of very long recordings it is not kept page by page who read.
fn crowded(facts: &Facts, reasons: &mut Reasons) {
    let by_whom = [By::Phase, By::Function, By::Thread];
    let reads = facts.faults.pages.reads_left_out();
    if reads > 0 {
        let why = format!(
            "who made {} of the reads is not known: their faults were lost, or there are too many; record a shorter time",
            count(reads)
        );
        reasons.add(by_whom, &[Metric::WastedReadahead], &why);
    }
}

fn waits(tables: &Tables, facts: &Facts, all: &[Metric], reasons: &mut Reasons) {
    let recording = &tables.recording;
    // `--off-cpu off` leaves only the hook that CPU time needs.
    let mut hooks = recording.hooks.iter();
    let is_watched = hooks.any(|hook| hook.hook.contains("sched_wak") && hook.refused.is_none());
    if !is_watched && facts.waits.rows.is_empty() && recording.waits_seen == 0 {
        let why = not_watched(recording, "switch", "--off-cpu")
            .unwrap_or_else(|| "no wait was recorded; record with `--off-cpu all`".to_owned());
        return reasons.add(By::ALL, all, &why);
    }
    let folded = (recording.folded_waits.iter()).fold(0_u64, |sum, folded| sum.saturating_add(folded.waits));
    if folded > 0 {
        let why = format!("{} waits are only sums in the profile; {LOG}", count(folded));
        reasons.add([By::Phase, By::File, By::Function], all, &why);
    }
}

fn requests(recording: &Recording, reasons: &mut Reasons) {
    if let (0, Some(why)) = (recording.requests_seen, not_watched(recording, "block", "--block")) {
        return reasons.add(By::ALL, &[Metric::BytesRead], &why);
    }
    let folded = (recording.folded_requests.iter()).fold(0_u64, |sum, folded| sum.saturating_add(folded.requests));
    if folded > 0 {
        let why = format!("{} requests are only sums in the profile; {LOG}", count(folded));
        reasons.add(By::ALL, &[Metric::BytesRead], &why);
    }
}
