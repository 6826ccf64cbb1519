//! Checks a thread's markers: their columns, and that each payload matches its schema.

use serde_json::{Map, Value};

use super::flows::Flows;
use super::problems::{Missing, Problems};
use crate::format::{Index, RawMarkers, RawProfile, RawSchema};
use crate::marker::{OWN_TYPES, PHASE_INSTANT, PHASE_INTERVAL, SCREENSHOT};

/// Checks the markers of one thread, and counts those of flows.
pub fn markers(
    place: &str,
    markers: &RawMarkers<'_>,
    (profile, flows): (&RawProfile<'_>, &mut Flows),
    problems: &mut Problems,
) {
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
    let column = format!("{place}.category");
    problems.references(&column, &markers.category, Missing::Never, categories);
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
            problems.add(place, &"start, end and phase do not match");
        }
    }
    for data in &markers.data {
        match serde_json::from_str::<Option<Map<String, Value>>>(data.get()) {
            Ok(Some(data)) => {
                flows.add(&data);
                payload(place, &data, profile, problems);
            }
            Ok(None) => {}
            Err(error) => problems.add(place, &error),
        }
    }
}

fn payload(place: &str, data: &Map<String, Value>, profile: &RawProfile<'_>, problems: &mut Problems) {
    let Some(name) = data.get("type").and_then(Value::as_str) else {
        return problems.add(place, &"a payload has no type");
    };
    if name == SCREENSHOT {
        // The front end knows it without a schema.
        if let Some(url) = data.get("url") {
            let strings = ("stringArray", profile.shared.string_array.len());
            problems.references(&format!("{place}.url"), &[url.as_i64()], Missing::Never, strings);
        }
        return;
    }
    match profile.meta.marker_schema.iter().find(|schema| schema.name == name) {
        None => problems.add(place, &format_args!("no schema for type {name:?}")),
        Some(schema) => fields(place, (data, schema), profile, problems),
    }
    if let Some(cause) = data.get("cause") {
        let stack: Index = cause.get("stack").and_then(Value::as_i64);
        let stacks = ("stackTable", profile.shared.stack_table.length);
        problems.references(&format!("{place}.cause"), &[stack], Missing::Never, stacks);
    }
}

fn fields(
    place: &str,
    (data, schema): (&Map<String, Value>, &RawSchema),
    profile: &RawProfile<'_>,
    problems: &mut Problems,
) {
    for field in &schema.fields {
        let Some(value) = data.get(&field.key) else { continue };
        let place = format_args!("{place}: {}.{}", schema.name, field.key).to_string();
        // What Firefox writes has scalars and objects where the front end shows text.
        let is_own = OWN_TYPES.contains(&&*schema.name);
        match field.format.as_str().unwrap_or_default() {
            "unique-string" | "flow-id" | "terminating-flow-id" => {
                let strings = ("stringArray", profile.shared.string_array.len());
                problems.references(&place, &[value.as_i64()], Missing::Never, strings);
            }
            "sanitized-string" | "file-path" | "url" | "string" if is_own && !value.is_string() => {
                problems.add(&place, &"not a string");
            }
            "integer" if !is_own && value.is_number() => {}
            "duration" | "integer" | "bytes" if value.as_f64().is_none_or(|number| number < 0.0) => {
                problems.add(&place, &"not a number");
            }
            _ => {}
        }
    }
}
