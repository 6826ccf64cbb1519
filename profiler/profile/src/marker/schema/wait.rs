//! Marker schemas of waits, wake-ups and block requests.

use fxprof_processed_profile::{MarkerFieldFormat, MarkerLocations, Profile};

use super::{FLOW, Field, Labels};
use crate::marker::request::{DISK_REQUEST, REQUEST};
use crate::marker::wait::{FILE_IO, IDLE, WAIT};
use crate::marker::wakeup::WAKEUP;

/// Registers the payload types.
pub fn add_to(profile: &mut Profile) {
    let table = MarkerLocations::MARKER_TABLE;
    let both = table | MarkerLocations::MARKER_CHART;
    let overview = both | MarkerLocations::TIMELINE_OVERVIEW;
    let mut add = |name: &str, description: &str, locations, label: &str, fields: Vec<Field>| {
        let labels = Labels {
            chart: label,
            table: label,
        };
        super::add(profile, (name, description), locations, labels, fields);
    };
    let wait = "{marker.data.reason} {marker.data.call} {marker.data.path}";
    add(
        WAIT,
        "The thread was held up for a millisecond or more.",
        overview,
        wait,
        wait_fields(),
    );
    add(
        IDLE,
        "The thread had nothing to do for a millisecond or more.",
        table,
        wait,
        wait_fields(),
    );
    let file_fields = [
        ("operation", "Operation", MarkerFieldFormat::SanitizedString),
        ("source", "Source", MarkerFieldFormat::SanitizedString),
        ("filename", "Filename", MarkerFieldFormat::FilePath),
    ];
    add(
        FILE_IO,
        "A file system call was held up.",
        both | MarkerLocations::TIMELINE_FILEIO,
        "({marker.data.source}) {marker.data.operation} — {marker.data.filename}",
        file_fields.into_iter().chain(wait_fields()).collect(),
    );
    add(
        WAKEUP,
        "The thread ended another one's wait of a millisecond or more.",
        both,
        "{marker.data.woken} {marker.data.reason}",
        wakeup_fields(),
    );
    let request = "{marker.data.device} {marker.data.size} {marker.data.place}";
    add(
        DISK_REQUEST,
        "A block request of this thread, from its submission to its completion.",
        overview | MarkerLocations::TIMELINE_FILEIO,
        request,
        request_fields(),
    );
    add(
        REQUEST,
        "A block request, from its queueing to its completion.",
        overview,
        "{marker.data.size} {marker.data.place} {marker.data.submitter}",
        request_fields(),
    );
}

fn wait_fields() -> Vec<Field> {
    use MarkerFieldFormat::{Duration, FilePath, Integer, SanitizedString as Text};
    vec![
        ("reason", "Waited for", Text),
        ("off", "Did not run", Duration),
        ("queued", "Of that, runnable", Duration),
        ("count", "Waits", Integer),
        ("longest", "Longest", Duration),
        ("call", "System call", Text),
        ("path", "Path", FilePath),
        ("waker", "Woken by", Text),
        ("wakerFunctions", "In", Text),
        ("why", "Why", Text),
        ("remarks", "Remarks", Text),
        FLOW,
    ]
}

fn wakeup_fields() -> Vec<Field> {
    use MarkerFieldFormat::{Duration, SanitizedString, String as Name};
    vec![
        ("woken", "Woke", Name),
        ("reason", "From waiting for", SanitizedString),
        ("off", "Which had not run for", Duration),
        FLOW,
    ]
}

fn request_fields() -> Vec<Field> {
    use MarkerFieldFormat::{Bytes, Duration, FilePath, Integer, SanitizedString as Text};
    vec![
        ("device", "Device", Text),
        ("operation", "Operation", Text),
        ("size", "Size", Text),
        ("bytes", "Bytes of the request", Bytes),
        ("own", "Bytes requested here", Bytes),
        ("place", "At", Text),
        ("path", "Path", FilePath),
        ("offset", "File offset", Text),
        ("sector", "Sector", Text),
        ("submitter", "Requested by", Text),
        ("function", "In", Text),
        ("source", "Between the device and", Text),
        ("queued", "Queued", Duration),
        ("service", "In the device", Duration),
        ("depth", "Queue depth", Integer),
        ("parts", "Bios", Integer),
        ("requeues", "Requeues", Integer),
        ("remarks", "Remarks", Text),
        FLOW,
    ]
}
