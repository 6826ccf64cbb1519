//! Checks what the front end relies on and mostly does not check itself: a web page that stays blank has no message.

use std::collections::BTreeMap;
use std::io::Read;

use debugid::DebugId;
use serde::Deserialize;

use super::format::{Index, RawCounter, RawMarkers, RawMeta, RawProfile, RawSamples, RawShared, RawThread};
use super::mark::{Cause, PHASE_INSTANT, PHASE_INTERVAL};
use super::{FORMAT_VERSION, input};

/// Problems that are told; a broken column has one in every row.
const TOLD: usize = 100;

/// Every problem of a profile, compressed or not; none: the profile is sound.
pub fn lint(profile: impl Read) -> Vec<String> {
    let mut problems = Problems::default();
    match input::read_all(profile, input::LIMIT) {
        Ok(bytes) => lint_bytes(&bytes, &mut problems),
        Err(error) => problems.add("profile", &format_args!("can't be read: {error}")),
    }
    problems.into_list()
}

/// What was found, with the number of rows that have the same problem.
#[derive(Default)]
struct Problems(BTreeMap<String, u64>);

impl Problems {
    fn add(&mut self, place: &str, problem: &dyn std::fmt::Display) {
        if self.0.len() < TOLD {
            *self.0.entry(format!("{place}: {problem}")).or_default() += 1;
        }
    }

    fn into_list(self) -> Vec<String> {
        let told = |(problem, count)| match count {
            1 => problem,
            _ => format!("{problem} ({count} times)"),
        };
        self.0.into_iter().map(told).collect()
    }

    /// The columns of a table have its length.
    fn lengths(&mut self, table: &str, length: usize, columns: &[(&str, usize)]) {
        for (column, len) in columns {
            if *len != length {
                self.add(
                    table,
                    &format_args!("column {column} has {len} rows instead of {length}"),
                );
            }
        }
    }

    /// Every reference of a column is a row of its target.
    fn references(&mut self, column: &str, indices: &[Index], missing: Missing, (target, rows): (&str, usize)) {
        for index in indices {
            let fits = match *index {
                None => missing == Missing::Null,
                Some(-1) if missing == Missing::MinusOne => true,
                Some(index) => usize::try_from(index).is_ok_and(|index| index < rows),
            };
            if !fits {
                self.add(
                    column,
                    &format_args!("refers to a row that {target} does not have ({rows} rows)"),
                );
            }
        }
    }

    fn sorted(&mut self, table: &str, times: impl Iterator<Item = f64>) {
        let mut last = 0.0;
        for time in times {
            // A comparison that NaN fails, too.
            if !(time >= last) {
                self.add(table, &"time goes backward or starts below 0");
            }
            last = time;
        }
    }
}

/// How a column says that there is no row to refer to.
#[derive(Clone, Copy, PartialEq)]
enum Missing {
    Never,
    Null,
    MinusOne,
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
            return problems.add(
                "meta",
                &format_args!("format {version}, of which nothing is known here"),
            );
        }
        Err(error) => return problems.add("profile", &format_args!("not a processed profile: {error}")),
    }
    let profile: RawProfile = match serde_json::from_slice(bytes) {
        Ok(profile) => profile,
        Err(error) => return problems.add("profile", &error),
    };
    lint_meta(&profile.meta, profile.threads.len(), problems);
    for lib in &profile.libs {
        if DebugId::from_breakpad(&lib.breakpad_id).is_err() {
            problems.add(&format!("libs: {}", lib.name), &"breakpadId can't be parsed");
        }
    }
    lint_shared(&profile, problems);
    for counter in &profile.counters {
        lint_counter(counter, profile.threads.len(), problems);
    }
    for (thread, index) in profile.threads.iter().zip(0..) {
        lint_thread(thread, index, &profile, problems);
    }
}

fn lint_meta(meta: &RawMeta, threads: usize, problems: &mut Problems) {
    if threads == 0 {
        problems.add("threads", &"there are none; the front end refuses that");
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
        problems.add("categories", &"none is grey; the front end needs a default");
    }
    if meta.categories.iter().any(|category| category.subcategories.is_empty()) {
        problems.add("categories", &"one has no subcategory");
    }
    if !(meta.interval > 0.0) {
        problems.add("meta", &"interval is not above 0");
    }
}

fn lint_shared(profile: &RawProfile<'_>, problems: &mut Problems) {
    let RawShared {
        stack_table,
        frame_table,
        func_table,
        resource_table,
        native_symbols,
        sources,
        string_array,
    } = &profile.shared;
    let strings = ("stringArray", string_array.len());
    let libs = ("libs", profile.libs.len());

    let stacks = stack_table;
    let columns = [
        ("frame", stacks.frame.len()),
        ("prefixOffset", stacks.prefix_offset.len()),
    ];
    problems.lengths("stackTable", stacks.length, &columns);
    problems.references(
        "stackTable.frame",
        &stacks.frame,
        Missing::Never,
        ("frameTable", frame_table.length),
    );
    for (offset, row) in stacks.prefix_offset.iter().zip(0..) {
        if !offset.is_some_and(|offset| (0..=row).contains(&offset)) {
            problems.add("stackTable.prefixOffset", &"a caller is not before its callee");
        }
    }

    lint_frames(profile, problems);

    let funcs = func_table;
    let columns = [
        ("name", funcs.name.len()),
        ("resource", funcs.resource.len()),
        ("source", funcs.source.len()),
    ];
    problems.lengths("funcTable", funcs.length, &columns);
    problems.references("funcTable.name", &funcs.name, Missing::Never, strings);
    let resources = ("resourceTable", resource_table.length);
    problems.references("funcTable.resource", &funcs.resource, Missing::MinusOne, resources);
    problems.references(
        "funcTable.source",
        &funcs.source,
        Missing::Null,
        ("sources", sources.length),
    );

    problems.lengths(
        "resourceTable",
        resource_table.length,
        &[("name", resource_table.name.len())],
    );
    problems.references("resourceTable.name", &resource_table.name, Missing::Never, strings);

    let symbols = native_symbols;
    let columns = [
        ("libIndex", symbols.lib_index.len()),
        ("address", symbols.address.len()),
        ("name", symbols.name.len()),
        ("functionSize", symbols.function_size.len()),
    ];
    problems.lengths("nativeSymbols", symbols.length, &columns);
    problems.references("nativeSymbols.libIndex", &symbols.lib_index, Missing::Never, libs);
    problems.references("nativeSymbols.name", &symbols.name, Missing::Never, strings);

    problems.lengths("sources", sources.length, &[("filename", sources.filename.len())]);
    problems.references("sources.filename", &sources.filename, Missing::Never, strings);
}

fn lint_frames(profile: &RawProfile<'_>, problems: &mut Problems) {
    let frames = &profile.shared.frame_table;
    let columns = [
        ("address", frames.address.len()),
        ("lib", frames.lib.len()),
        ("inlineDepth", frames.inline_depth.len()),
        ("category", frames.category.len()),
        ("subcategory", frames.subcategory.len()),
        ("func", frames.func.len()),
        ("nativeSymbol", frames.native_symbol.len()),
        ("line", frames.line.len()),
    ];
    problems.lengths("frameTable", frames.length, &columns);
    let symbols = ("nativeSymbols", profile.shared.native_symbols.length);
    problems.references(
        "frameTable.lib",
        &frames.lib,
        Missing::MinusOne,
        ("libs", profile.libs.len()),
    );
    problems.references(
        "frameTable.func",
        &frames.func,
        Missing::Never,
        ("funcTable", profile.shared.func_table.length),
    );
    problems.references("frameTable.nativeSymbol", &frames.native_symbol, Missing::Null, symbols);
    let categories = &profile.meta.categories;
    problems.references(
        "frameTable.category",
        &frames.category,
        Missing::Null,
        ("categories", categories.len()),
    );
    for (category, subcategory) in frames.category.iter().zip(&frames.subcategory) {
        let category = category
            .and_then(|index| usize::try_from(index).ok())
            .and_then(|index| categories.get(index));
        let rows = category.map_or(1, |category| category.subcategories.len());
        problems.references(
            "frameTable.subcategory",
            &[*subcategory],
            Missing::Null,
            ("the category", rows),
        );
    }
    if frames
        .address
        .iter()
        .any(|address| address.is_none_or(|address| address < -1))
    {
        problems.add("frameTable.address", &"neither an address nor −1");
    }
    if frames
        .inline_depth
        .iter()
        .any(|depth| depth.is_none_or(|depth| depth < 0))
    {
        problems.add("frameTable.inlineDepth", &"not a depth");
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
        problems.add(&place, &"it does not say how it is drawn");
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

fn lint_thread(thread: &RawThread<'_>, index: usize, profile: &RawProfile<'_>, problems: &mut Problems) {
    let name: String = thread.name.chars().take(30).collect();
    let place = format!("thread {index} {name:?}");
    lint_samples(
        &format!("{place}: samples"),
        &thread.samples,
        profile.shared.stack_table.length,
        problems,
    );
    lint_markers(&format!("{place}: markers"), &thread.markers, profile, problems);
}

fn lint_samples(place: &str, samples: &RawSamples, stacks: usize, problems: &mut Problems) {
    let columns = [
        ("stack", samples.stack.len()),
        ("timeDeltas", samples.time_deltas.len()),
        ("threadCPUDelta", samples.thread_cpu_delta.len()),
        ("weight", samples.weight.as_ref().map_or(samples.length, Vec::len)),
    ];
    problems.lengths(place, samples.length, &columns);
    problems.references(
        &format!("{place}.stack"),
        &samples.stack,
        Missing::Null,
        ("stackTable", stacks),
    );
    lint_deltas(place, &samples.time_deltas, problems);
}

fn lint_markers(place: &str, markers: &RawMarkers<'_>, profile: &RawProfile<'_>, problems: &mut Problems) {
    #[derive(Deserialize)]
    struct Data {
        r#type: String,
        cause: Option<Cause>,
    }

    let columns = [
        ("category", markers.category.len()),
        ("data", markers.data.len()),
        ("name", markers.name.len()),
        ("startTime", markers.start_time.len()),
        ("endTime", markers.end_time.len()),
        ("phase", markers.phase.len()),
    ];
    problems.lengths(place, markers.length, &columns);
    let categories = ("categories", profile.meta.categories.len());
    problems.references(
        &format!("{place}.category"),
        &markers.category,
        Missing::Never,
        categories,
    );
    let strings = ("stringArray", profile.shared.string_array.len());
    problems.references(&format!("{place}.name"), &markers.name, Missing::Never, strings);
    problems.sorted(place, markers.start_time.iter().map(|time| time.unwrap_or(f64::NAN)));
    for ((phase, start), end) in markers.phase.iter().zip(&markers.start_time).zip(&markers.end_time) {
        let fits = match *phase {
            PHASE_INSTANT => start.is_some(),
            PHASE_INTERVAL => start.zip(*end).is_some_and(|(start, end)| start <= end),
            _ => false,
        };
        if !fits {
            problems.add(place, &"start, end and phase do not fit");
        }
    }
    for data in &markers.data {
        match serde_json::from_str(data.get()) {
            Ok(Some(Data { r#type, cause })) => {
                if !profile.meta.marker_schema.iter().any(|schema| schema.name == r#type) {
                    problems.add(place, &format_args!("no schema for type {:?}", r#type));
                }
                let stack: Vec<Index> = cause.iter().map(|cause| Some(i64::from(cause.stack))).collect();
                let stacks = ("stackTable", profile.shared.stack_table.length);
                problems.references(&format!("{place}.cause"), &stack, Missing::Never, stacks);
            }
            Ok(None) => {}
            Err(error) => problems.add(place, &error),
        }
    }
}
