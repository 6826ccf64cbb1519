//! Checks properties that the front end relies on but mostly does not check: it shows a blank page
//! without a message.

mod flows;
mod markers;
mod problems;
mod tables;

use std::io::Read;

use debugid::DebugId;
use serde::Deserialize;

use self::flows::Flows;
use self::problems::{Missing, Problems};
use crate::format::{FORMAT_VERSION, Index, RawCounter, RawMeta, RawProfile, RawSamples, RawThread};
use crate::input;

/// Lists all problems of a profile, compressed or not; empty: the profile is valid.
pub fn lint(mut profile: impl Read) -> Vec<String> {
    let mut problems = Problems::default();
    match input::read_all(&mut profile, input::LIMIT) {
        Ok(bytes) => lint_bytes(&bytes, &mut problems),
        Err(error) => problems.add("profile", &format_args!("cannot be read: {error}")),
    }
    problems.into_list()
}

#[derive(Deserialize)]
struct Versioned {
    meta: Version,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "preprocessedProfileVersion")]
    version: u32,
}

fn lint_bytes(bytes: &[u8], problems: &mut Problems) {
    match serde_json::from_slice(bytes) {
        Ok(Versioned {
            meta: Version {
                version: FORMAT_VERSION,
            },
        }) => {}
        Ok(Versioned {
            meta: Version { version },
        }) => {
            return problems.add("meta", &format_args!("unknown format version {version}"));
        }
        Err(error) => return problems.add("profile", &format_args!("not a processed profile: {error}")),
    }
    let profile: RawProfile = match serde_json::from_slice(bytes) {
        Ok(profile) => profile,
        Err(error) => return problems.add("profile", &error),
    };
    lint_meta(&profile.meta, profile.threads.len(), problems);
    for lib in &profile.libs {
        if !lib.breakpad_id.is_empty() && DebugId::from_breakpad(&lib.breakpad_id).is_err() {
            problems.add(&format!("libs: {}", lib.name), &"breakpadId can't be parsed");
        }
    }
    tables::shared(&profile, problems);
    let stacks = profile.shared.stack_table.length;
    if profile.ngmi.as_ref().is_some_and(|section| section.labels > stacks) {
        problems.add("ngmi.labels", &format_args!("beyond the stack table ({stacks} rows)"));
    }
    for counter in &profile.counters {
        lint_counter(counter, profile.threads.len(), problems);
    }
    let mut flows = Flows::default();
    for (thread, index) in profile.threads.iter().zip(0..) {
        lint_thread((thread, index), &profile, &mut flows, problems);
    }
    flows.check(problems);
}

fn lint_meta(meta: &RawMeta, threads: usize, problems: &mut Problems) {
    if threads == 0 {
        problems.add("threads", &"there are none; the front end rejects that");
    }
    for (name, indices) in [
        ("initialVisibleThreads", &meta.initial_visible_threads),
        ("initialSelectedThreads", &meta.initial_selected_threads),
    ] {
        let indices: Vec<Index> = indices.iter().copied().map(Some).collect();
        problems.references(name, &indices, Missing::Never, ("threads", threads));
    }
    if meta
        .initial_selected_threads
        .iter()
        .any(|thread| !meta.initial_visible_threads.contains(thread))
    {
        problems.add("initialSelectedThreads", &"a selected thread is not visible");
    }
    if !meta.categories.iter().any(|category| category.color == "grey") {
        problems.add("categories", &"no category is grey; the front end needs a default");
    }
    if meta.categories.iter().any(|category| category.subcategories.is_empty()) {
        problems.add("categories", &"a category has no subcategory");
    }
    if meta.interval.is_nan() || meta.interval <= 0.0 {
        problems.add("meta", &"interval is not positive");
    }
}

fn lint_counter(counter: &RawCounter, threads: usize, problems: &mut Problems) {
    let place = format!("counter {}", counter.name);
    let samples = &counter.samples;
    let columns = [
        ("timeDeltas", samples.time_deltas.len()),
        ("count", samples.count.len()),
    ];
    problems.lengths(&place, samples.length, &columns);
    problems.references(
        &place,
        &[Some(counter.main_thread_index)],
        Missing::Never,
        ("threads", threads),
    );
    lint_deltas(&place, &samples.time_deltas, problems);
    if counter.display.is_none() {
        problems.add(&place, &"it has no display options");
    }
}

fn lint_deltas(place: &str, deltas: &[f64], problems: &mut Problems) {
    let mut time = 0.0;
    problems.sorted(
        place,
        deltas.iter().map(|delta| {
            time += delta;
            time
        }),
    );
}

fn lint_thread(
    (thread, index): (&RawThread<'_>, usize),
    profile: &RawProfile<'_>,
    flows: &mut Flows,
    problems: &mut Problems,
) {
    let name: String = thread.name.chars().take(30).collect();
    let place = format!("thread {index} {name:?}");
    lint_samples(
        &format!("{place}: samples"),
        &thread.samples,
        profile.shared.stack_table.length,
        problems,
    );
    if thread.companion.is_none() {
        let column = ("threadCPUDelta", thread.samples.thread_cpu_delta.len());
        problems.lengths(&format!("{place}: samples"), thread.samples.length, &[column]);
    }
    let is_difference = thread.difference.is_some();
    let is_wrong = |weight: &f64| weight.is_nan() || (*weight < 0.0 && !is_difference);
    if thread.samples.weight.iter().flatten().any(is_wrong) {
        problems.add(&format!("{place}: samples"), &"a weight is negative");
    }
    markers::markers(
        &format!("{place}: markers"),
        &thread.markers,
        (profile, flows),
        problems,
    );
}

fn lint_samples(place: &str, samples: &RawSamples, stacks: usize, problems: &mut Problems) {
    let columns = [
        ("stack", samples.stack.len()),
        ("timeDeltas", samples.time_deltas.len()),
        ("weight", samples.weight.as_ref().map_or(samples.length, Vec::len)),
    ];
    problems.lengths(place, samples.length, &columns);
    if !matches!(&*samples.weight_type, "samples" | "tracing-ms" | "bytes") {
        problems.add(place, &format_args!("weightType {:?}", samples.weight_type));
    }
    if samples.weight_type != "samples" && samples.weight.is_none() {
        problems.add(place, &"its weight type is not samples, but it has no weights");
    }
    problems.references(
        &format!("{place}.stack"),
        &samples.stack,
        Missing::Null,
        ("stackTable", stacks),
    );
    lint_deltas(place, &samples.time_deltas, problems);
}
