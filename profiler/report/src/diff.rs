//! Comparison of two sets of recordings: what changed, and whether the change exceeds noise.

pub mod compare;
pub mod noise;
pub mod text;

pub use compare::{Diff, Row, Verdict};
