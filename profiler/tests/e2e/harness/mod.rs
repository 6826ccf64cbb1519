//! What the tests share: building the oracle programs, running `ngmi`, and reading the profile it wrote.

pub mod ngmi;
pub mod oracle;
pub mod procfs;
pub mod profile;
pub mod reclaim;
pub mod skip;
pub mod taken;

pub use ngmi::{Ngmi, Outcome};
pub use oracle::Oracle;
pub use profile::Profile;

/// `key=value` out of what an oracle program printed.
pub fn said(output: &str, key: &str) -> u64 {
    said_text(output, key)
        .parse()
        .unwrap_or_else(|_| panic!("{key} is no number in {output:?}"))
}

/// `key=value` as text.
pub fn said_text<'a>(output: &'a str, key: &str) -> &'a str {
    output
        .split_whitespace()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("no {key}= in {output:?}"))
}

/// Asserts that `value` lies within `tolerance` of `expected`.
#[track_caller]
pub fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    assert!(
        (value - expected).abs() <= tolerance,
        "{what}: {value:.4}, expected {expected:.4} within {tolerance:.4}"
    );
}
