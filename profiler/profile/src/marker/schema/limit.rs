//! The marker schema of reached limits of a cgroup's memory.

use fxprof_processed_profile::{MarkerFieldFormat, MarkerLocations, Profile};

use super::Labels;
use crate::marker::limit::LIMIT;

/// Registers the payload type.
pub fn add_to(profile: &mut Profile) {
    let label = "{marker.data.times}";
    super::add(
        profile,
        (
            LIMIT,
            "The cgroup's memory reached a limit between two readings of its files.",
        ),
        MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE | MarkerLocations::TIMELINE_OVERVIEW,
        Labels {
            chart: label,
            table: label,
        },
        [
            ("times", "Count", MarkerFieldFormat::SanitizedString),
            ("limit", "Limit", MarkerFieldFormat::Bytes),
        ],
    );
}
