//! The hash by which tables of numbers find rows: such a table holds where each row is, and not what it is found by.

use std::hash::{BuildHasher as _, Hash};

use rustc_hash::FxBuildHasher;

/// The hash of a row, or of its key.
pub fn hash(of: &impl Hash) -> u64 {
    FxBuildHasher.hash_one(of)
}
