//! Markers that the program writes itself, and the environment variables that request them.

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, assert_near, said};

#[test]
fn a_programs_own_markers_are_in_the_profile() {
    needs_capture!();
    let outcome = Ngmi::record().program(Oracle::c("marker"), [""; 0]).run();
    let profile = outcome.profile();
    let has = |text: &str, data: &serde_json::Value, name: &str| name.contains(text) || data.to_string().contains(text);
    let marker = profile
        .threads
        .iter()
        .flat_map(|thread| &thread.markers)
        .find(|marker| has("the long phase", &marker.data, &marker.name))
        .unwrap_or_else(|| panic!("no marker of the program; it printed {}", outcome.stdout));
    let length = marker.time.1.expect("it has an end") - marker.time.0.expect("it has a start");
    assert_near(
        "length of the phase, in ms",
        length,
        said(&outcome.stdout, "phase_ns") as f64 / 1e6,
        0.01,
    );
    let all: Vec<_> = profile.threads.iter().flat_map(|thread| &thread.markers).collect();
    assert!(all.iter().any(|marker| has("an instant", &marker.data, &marker.name)));
    assert!(
        !all.iter().any(|marker| has("overflow", &marker.data, &marker.name)),
        "garbage is not a marker"
    );
}

#[test]
fn a_user_set_value_wins() {
    needs_capture!();
    let ngmi = Ngmi::record();
    let own = ngmi.dir().join("own");
    std::fs::create_dir(&own).unwrap();
    let outcome = ngmi
        .env("MOZ_USE_PERFORMANCE_MARKER_FILE", "yes")
        .env("MOZ_PERFORMANCE_MARKER_DIR", &own)
        .program(Oracle::c("marker"), [""; 0])
        .run();
    outcome.expect_code(0);
    assert!(
        outcome.stdout.contains(&format!("use=yes dir={}", own.display())),
        "{}",
        outcome.stdout
    );
    assert_eq!(
        std::fs::read_dir(&own).unwrap().count(),
        1,
        "the program's file stays where the user put it"
    );
}
