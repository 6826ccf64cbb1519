//! Marker schemas of page faults and reads.

use fxprof_processed_profile::{MarkerFieldFormat, MarkerLocations, Profile};
use serde_json::Value;

use super::{FLOW, Field, Labels};
use crate::marker::fault::{DISK_FAULT, FAULT, READ};

/// Label in the marker chart.
const SHORT: &str = "{marker.data.file} {marker.data.offset} {marker.data.class}";
/// Label in the marker table.
const LONG: &str =
    "{marker.data.class} {marker.data.file} {marker.data.offset} {marker.data.section} {marker.data.symbol}";

/// Registers the payload types in the profile.
pub fn add_to(profile: &mut Profile) {
    let tables = MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE;
    // Faults that waited are shown in the thread's overview and have a file I/O track.
    let overview = MarkerLocations::TIMELINE_OVERVIEW | MarkerLocations::TIMELINE_FILEIO;
    let mut add = |name: &str, description: &str, locations, label: &str, fields: Vec<Field>| {
        let labels = Labels {
            chart: SHORT,
            table: label,
        };
        super::add(
            profile,
            (name, description),
            locations,
            labels,
            file_fields().into_iter().chain(fields),
        );
    };
    let waited = "A page fault that waited for a disk, or for another thread's read.";
    add(
        FAULT,
        "A page fault that did not wait for a disk.",
        tables,
        LONG,
        fault_fields(),
    );
    add(DISK_FAULT, waited, tables | overview, LONG, fault_fields());
    add(
        READ,
        "Pages that were added to the page cache.",
        tables,
        SHORT,
        read_fields(),
    );
}

fn file_fields() -> Vec<Field> {
    use MarkerFieldFormat::{SanitizedString, String as Name};
    vec![
        ("file", "File", Name),
        ("path", "Path", Name),
        ("offset", "File offset", SanitizedString),
    ]
}

fn fault_fields() -> Vec<Field> {
    use MarkerFieldFormat::{Duration, Integer, SanitizedString, String as Name};
    vec![
        ("section", "Section", Name),
        ("symbol", "Symbol", Name),
        ("class", "Class", Name),
        ("access", "Access", Name),
        ("counted", "Counted by the kernel as", Name),
        ("address", "Address", SanitizedString),
        ("disk", "Waited for disk", Duration),
        ("otherRead", "Waited for another thread's read", Duration),
        ("lock", "Waited for the address space", Duration),
        ("reclaim", "In reclaim or compaction", Duration),
        ("blocked", "Blocked otherwise", Duration),
        ("preempted", "Preempted", Duration),
        ("retries", "Retries", Integer),
        ("pagesRead", "Pages read", Integer),
        ("around", "Other pages mapped", Integer),
        ("others", "Other faults that it represents", Integer),
        ("othersTime", "Their time", Duration),
        ("remarks", "Remarks", Name),
        ("why", "Why", SanitizedString),
        FLOW,
    ]
}

fn read_fields() -> Vec<Field> {
    use MarkerFieldFormat::{Bytes, Integer, String as Name};
    vec![
        ("pages", "Pages", Integer),
        ("bytes", "Bytes", Bytes),
        ("during", "During", Name),
    ]
}

/// Adds what the library's schema cannot express: faults that waited have a separate colour.
pub fn complete(schema: &mut Value) {
    let waited = schema.get("name").is_some_and(|name| name == DISK_FAULT);
    if let (true, Some(schema)) = (waited, schema.as_object_mut()) {
        schema.insert("colorField".into(), "color".into());
    }
}
