//! Marker schemas of peaks, which are drawn as graphs.

use fxprof_processed_profile::{
    GraphColor, MarkerFieldFormat, MarkerGraphType, MarkerLocations, Profile, RuntimeSchemaMarkerGraph,
};

use super::{FLOW, Labels};
use crate::marker::peak::{DEPTH, LATENCY};

/// Registers the payload types.
pub fn add_to(profile: &mut Profile) {
    use MarkerFieldFormat::{Duration, Integer, SanitizedString as Text};
    let graph = |key: &str, color| RuntimeSchemaMarkerGraph {
        key: key.into(),
        graph_type: MarkerGraphType::Bar,
        color: Some(color),
    };
    let label = "{marker.data.place} {marker.data.thread}";
    let latency = [
        ("latency", "Latency", Duration),
        ("thread", "Thread", Text),
        ("class", "Class", Text),
        ("place", "At", Text),
        FLOW,
    ];
    super::add_with_graph(
        profile,
        (LATENCY, "The slowest page fault of all threads at about this time."),
        MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE,
        Labels {
            chart: label,
            table: label,
        },
        latency,
        vec![graph("latency", GraphColor::Red)],
    );
    let label = "{marker.data.depth}";
    super::add_with_graph(
        profile,
        (DEPTH, "The most requests that the device had at about this time."),
        MarkerLocations::empty(),
        Labels {
            chart: label,
            table: label,
        },
        [("depth", "Requests", Integer)],
        vec![graph("depth", GraphColor::Purple)],
    );
}
