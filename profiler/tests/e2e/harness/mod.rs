//! Shared code of the tests: builds the oracle programs, runs `ngmi`, and reads the profile it writes.

pub mod ngmi;
pub mod oracle;
pub mod page;
pub mod procfs;
pub mod profile;
pub mod reclaim;
pub mod skip;
pub mod taken;

pub use ngmi::{Ngmi, Outcome};
pub use oracle::Oracle;
pub use profile::Profile;

/// The number of `key=value` in the output of an oracle program.
pub fn said(output: &str, key: &str) -> u64 {
    said_text(output, key)
        .parse()
        .unwrap_or_else(|_| panic!("{key} is not a number in {output:?}"))
}

/// The text of `key=value` in the output of an oracle program.
pub fn said_text<'a>(output: &'a str, key: &str) -> &'a str {
    output
        .split_whitespace()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("no {key}= in {output:?}"))
}

/// Asserts that `value` is within `tolerance` of `expected`.
#[track_caller]
pub fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    assert!(
        (value - expected).abs() <= tolerance,
        "{what}: {value:.4}, expected {expected:.4} within {tolerance:.4}"
    );
}
