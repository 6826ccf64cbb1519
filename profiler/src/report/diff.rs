//! What changed between two sets of recordings, and whether that is more than noise.

pub mod compare;
pub mod noise;
pub mod text;

pub use compare::{Diff, Row, Verdict};
