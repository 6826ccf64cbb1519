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

// Of a critical path, which is sent as text:

/// Pieces; if there are more, short ones are merged.
pub const PIECES: usize = 200_000;
/// Nodes of the stack tree.
pub const PATH_NODES: usize = 200_000;
/// Distinct names.
pub const PATH_STRINGS: usize = 100_000;
/// Length of a name, in bytes.
pub const PATH_STRING: usize = 500;
/// Bytes of all names; JSON may take six times as many.
pub const PATH_TEXT: usize = 16 << 20;
/// Rows of each table.
pub const PATH_ROWS: usize = 200;
/// Threads that can be chosen; those that ran longest.
pub const CHOICES: usize = 2_000;
