//! Fewer facts, with the same totals: for the profile's budget, for sharing, and as exact sums of all page faults.

pub mod budget;
pub mod finding_inputs;
pub mod merged;
pub mod packed;
pub mod pages;
pub mod sanitize;
pub mod strings;
pub mod sums;
pub mod trim;
