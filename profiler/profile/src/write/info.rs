//! The profile-info panel: how the profile was recorded and how complete it is.

mod cgroups;
mod cost;
mod io;

use serde_json::{Value, json};

use crate::marker::shell;
use crate::units::NS_PER_MS;
use base::plural::counted;
use fact::account::{self, FaultTier};
use fact::fault::FaultClass;
use fact::reduce::budget::Collected;
use fact::{FoldedFaults, Recording, StackEnds, Tables};

/// Maximum number of modules listed for incomplete stacks.
const WORST: usize = 10;
/// Maximum length of a command line in the panel, in characters.
const COMMAND_LIMIT: usize = 1000;

/// Builds the sections of `meta.extra`.
pub fn sections(tables: &Tables, collected: &Collected) -> Value {
    let recording = &tables.recording;
    let mut sections = vec![
        section("Recording", recorded(recording)),
        section("Hooks", hooks(recording)),
        section("Completeness", completeness(recording, collected)),
    ];
    let faults = faults(tables, collected);
    if !faults.is_empty() {
        sections.insert(2, section("Page faults", faults));
    }
    let io = io::sections(tables, collected).into_iter();
    let io = io.map(|(label, entries)| section(label, entries));
    let before_last = sections.len() - 1;
    sections.splice(before_last..before_last, io);
    let cgroups = cgroups::entries(tables);
    if !cgroups.is_empty() {
        sections.push(section("Cgroups", cgroups));
    }
    let cost = cost::entries(recording);
    if !cost.is_empty() {
        sections.push(section("What the recording cost", cost));
    }
    if !recording.notes.is_empty() {
        let notes = recording.notes.iter().map(|note| entry("Note", "string", note));
        sections.push(section("Notes", notes.collect()));
    }
    Value::Array(sections)
}

fn section(label: &str, entries: Vec<Value>) -> Value {
    Value::Object(
        [
            ("label".into(), label.into()),
            ("entries".into(), Value::Array(entries)),
        ]
        .into_iter()
        .collect(),
    )
}

/// An entry of a section.
fn entry(label: &str, format: &str, value: impl serde::Serialize) -> Value {
    json!({"label": label, "format": format, "value": value})
}

fn ms(ns: u64) -> f64 {
    ns as f64 / NS_PER_MS
}

fn recorded(recording: &Recording) -> Vec<Value> {
    let command: String = shell::join(&recording.command).chars().take(COMMAND_LIMIT).collect();
    let what = match recording.scope.as_str() {
        "system" => "the whole system".to_owned(),
        "pids" => "running processes".to_owned(),
        "selected" => "selected processes".to_owned(),
        _ => command,
    };
    let end = recording
        .end_reason
        .clone()
        .unwrap_or_else(|| "the recorder was killed".into());
    let text = |label, value: String| entry(label, "string", value);
    let ms = recording.end.since(recording.start).as_secs_f64() * 1000.0;
    vec![
        text("Recorded", what),
        entry("Duration", "duration", ms),
        text("Ended because", end),
        text("Recorded by", format!("ngmi {}", recording.ngmi_version)),
        text("Kernel", format!("{} {}", recording.kernel, recording.arch)),
        entry("CPUs", "integer", recording.cpus),
        text(
            "Sampled by",
            format!("{} at {} Hz on each CPU", recording.sample_event, recording.sample_hz),
        ),
        entry("Maximum stack copy", "bytes", recording.stack_copy),
    ]
}

fn hooks(recording: &Recording) -> Vec<Value> {
    let state = |hook: &base::event::HookStatus| match (&hook.refused, &hook.remedy) {
        (None, _) => "attached".to_owned(),
        (Some(refused), None) => format!("refused: {refused}"),
        (Some(refused), Some(remedy)) => format!("refused: {refused}; {remedy}"),
    };
    recording
        .hooks
        .iter()
        .map(|h| entry(&format!("{}: {}", h.noun, h.hook), "string", state(h)))
        .collect()
}

fn faults(tables: &Tables, collected: &Collected) -> Vec<Value> {
    let recording = &tables.recording;
    let totals = &collected.faults;
    let tier = FaultTier::of(recording);
    if tier.is_none() && totals.faults + totals.failed == 0 {
        return Vec::new();
    }
    let watched = tier.map_or("unknown", FaultTier::words);
    let mut entries = vec![
        entry("Traced by", "string", watched),
        entry("Page faults", "integer", recording.faults_seen),
        entry("Counted, not recorded", "integer", totals.represented),
        entry("Major", "integer", totals.major),
        entry("Failed", "integer", totals.failed),
        entry("Time in page faults", "duration", ms(totals.time)),
    ];
    if totals.waits_known > 0 {
        entries.push(entry("Waited for disk", "integer", totals.waited));
        entries.push(entry("Time waited for disk", "duration", ms(totals.waited_time)));
    }
    entries.extend(complete_stacks(&recording.fault_stack_ends));
    for folded in by_class(recording) {
        let label = format!("Without individual markers: {}", folded.0);
        let time = std::time::Duration::from_nanos(folded.2);
        entries.push(entry(&label, "string", format!("{} in {time:?}", folded.1)));
    }
    let runs = recording
        .folded_reads
        .iter()
        .fold(0, |sum: u64, folded| sum.saturating_add(folded.runs));
    if runs > 0 {
        entries.push(entry("Reads without individual markers", "integer", runs));
    }
    let account = account::check(tables);
    if account.threads > 0 {
        for (label, count) in [
            ("Account: counted by the kernel", account.kernel),
            ("Account: recorded", account.seen),
            ("Account: lost", account.lost),
            ("Account: not requested", account.filtered),
            ("Account: not visible to this tier", account.not_visible),
        ] {
            entries.push(entry(label, "integer", count));
        }
        let closes = || {
            format!(
                "reconciles for each of {} that ended",
                counted(account.threads, "thread")
            )
        };
        let result = account.problem(tables).unwrap_or_else(closes);
        entries.push(entry("Account", "string", result));
    }
    entries
}

/// Aggregated faults: class, count, and time in ns.
fn by_class(recording: &Recording) -> Vec<(&'static str, u64, u64)> {
    let of_class = |class: FaultClass| {
        let folded = recording
            .folded_faults
            .iter()
            .filter(move |folded| folded.class == class);
        let add = |(count, time): (u64, u64), folded: &FoldedFaults| {
            (count.saturating_add(folded.faults), time.saturating_add(folded.time))
        };
        let (count, time) = folded.fold((0, 0), add);
        (class.name(), count, time)
    };
    FaultClass::ALL
        .into_iter()
        .map(of_class)
        .filter(|(_, count, _)| *count > 0)
        .collect()
}

fn completeness(recording: &Recording, collected: &Collected) -> Vec<Value> {
    let mut entries = vec![
        entry("Samples", "integer", recording.samples_seen),
        entry("CPU time of all threads", "duration", ms(recording.cpu_time_seen)),
    ];
    if recording.sample_thinning > 1 {
        let thinned = format!("each represents up to {}", recording.sample_thinning);
        entries.push(entry("Samples are thinned", "string", thinned));
    }
    if collected.marks_dropped > 0 {
        entries.push(entry("Markers left out", "integer", collected.marks_dropped));
    }
    if recording.losses.is_empty() {
        entries.push(entry("Lost", "string", "nothing"));
    }
    for (loss, count) in &recording.losses {
        entries.push(entry(&format!("Lost: {loss}"), "integer", count));
    }
    entries.extend(complete_stacks(&recording.stack_ends));
    let walked = recording
        .walks
        .ends
        .iter()
        .fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
    for (end, count) in &recording.walks.ends {
        let label = format!("Walks in the kernel: {end}");
        entries.push(entry(&label, "percentage", *count as f64 / walked as f64));
    }
    if let Some((same, different)) = recording.walks.checked {
        let text = format!("{same} of {}", same.saturating_add(different));
        entries.push(entry("Walks that framehop agrees with", "string", text));
    }
    let mut cut: Vec<&StackEnds> = recording
        .stack_ends
        .iter()
        .filter(|ends| ends.reason.is_some())
        .collect();
    cut.sort_by_key(|ends| std::cmp::Reverse(ends.samples));
    let total = samples(recording.stack_ends.iter());
    for ends in cut.into_iter().take(WORST) {
        let reason = ends.reason.map_or("complete", fact::TruncationReason::name);
        let label = format!("Stacks cut in {}: {reason}", ends.module);
        entries.push(entry(&label, "percentage", ends.samples as f64 / total as f64));
    }
    entries
}

/// The share of complete stacks; `None`: there are none.
fn complete_stacks(ends: &[StackEnds]) -> Option<Value> {
    let walked = ends
        .iter()
        .filter(|ends| ends.reason != Some(fact::TruncationReason::Thinned));
    let all = samples(walked);
    let complete = samples(ends.iter().filter(|ends| ends.reason.is_none()));
    let share = complete as f64 / all as f64;
    (all > 0).then(|| entry("Complete user stacks", "percentage", share))
}

/// Sums numbers of samples; saturating, because a damaged profile may contain larger ones.
fn samples<'a>(ends: impl Iterator<Item = &'a StackEnds>) -> u64 {
    ends.fold(0, |sum, ends| sum.saturating_add(ends.samples))
}
