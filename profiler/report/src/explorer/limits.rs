//! Upper limits for the contents of a document, because a browser has to open it.

/// Faults; if there are more, the longest are kept.
pub const FAULTS: usize = 2_000_000;
/// Page reads, requests, and causes, each; the first ones are kept.
pub const ROWS: usize = 1_000_000;
/// Files; faults in further files are shown without a file.
pub const FILES: usize = 1 << 16;
/// Nodes of the stack tree; stacks that need more are cut.
pub const NODES: usize = 4_000_000;
/// Symbols of all files.
pub const SYMBOLS: usize = 1 << 20;
/// Sections of a file.
pub const SECTIONS: usize = 256;
/// Runs of pages of all files and sets.
pub const RUNS: usize = 4_000_000;
/// Distinct names.
pub const STRINGS: usize = 4_000_000;
/// Length of a name, in bytes.
pub const STRING: usize = 2_000;
