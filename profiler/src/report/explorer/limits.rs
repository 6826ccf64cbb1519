//! What a document holds at most: a browser has to open it.

/// Faults; beyond it those that took longest stay.
pub const FAULTS: usize = 2_000_000;
/// Reads of pages, requests, and causes, each; the first ones stay.
pub const ROWS: usize = 1_000_000;
/// Files; faults on others are shown without one.
pub const FILES: usize = 1 << 16;
/// Functions on stacks; what is beyond has no stack.
pub const NODES: usize = 4_000_000;
/// Symbols of all files.
pub const SYMBOLS: usize = 1 << 20;
/// Sections of a file.
pub const SECTIONS: usize = 256;
/// Runs of pages of all files and sets.
pub const RUNS: usize = 4_000_000;
/// Distinct names.
pub const STRINGS: usize = 4_000_000;
/// Bytes of a name.
pub const STRING: usize = 2_000;
