//! The critical path: why a time span of a thread took that long. Each wait is replaced by what the thread that ended
//! it did meanwhile. docs/path.md has the rules.
//!
//! [`facts`] collects facts into [`lanes`]; [`walk`] follows the path through them, by the [`rules`]; [`what_if`]
//! computes how long the span would have taken without a part of it.

pub mod chain;
mod everything;
pub mod export;
pub mod facts;
pub(crate) mod holders;
pub mod kept;
pub mod lanes;
pub mod report;
mod rules;
pub mod select;
mod split;
pub mod tally;
pub mod text;
mod vain;
pub mod view;
pub mod walk;
pub mod what_if;

pub use facts::PathFacts;
pub use report::PathReport;
pub use select::{PathError, choose};
pub use view::PathView;

#[cfg(test)]
mod tests;
