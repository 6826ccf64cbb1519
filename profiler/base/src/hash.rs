//! The hash for tables of numbered rows: such a table stores the positions of rows, not their keys.

use std::hash::{BuildHasher as _, Hash};

use rustc_hash::FxBuildHasher;

/// The hash of a row, or of its key.
pub fn hash(of: &impl Hash) -> u64 {
    FxBuildHasher.hash_one(of)
}
