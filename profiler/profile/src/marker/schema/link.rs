//! The marker schema of links of a critical path.

use fxprof_processed_profile::{MarkerFieldFormat, MarkerLocations, Profile};

use super::{FLOW, Labels};
use crate::marker::link::LINK;

/// Registers the payload type.
pub fn add_to(profile: &mut Profile) {
    use MarkerFieldFormat::SanitizedString as Text;
    let label = "{marker.data.part} {marker.data.via}";
    super::add(
        profile,
        (
            LINK,
            "A part of the critical path in one thread, which ended a wait that the path came from.",
        ),
        MarkerLocations::MARKER_CHART | MarkerLocations::MARKER_TABLE | MarkerLocations::TIMELINE_OVERVIEW,
        Labels {
            chart: label,
            table: label,
        },
        [
            ("part", "Most of it", Text),
            ("thread", "Thread", Text),
            ("via", "Entered by a wait for", Text),
            FLOW,
        ],
    );
}
