//! Critical paths end to end: records programs whose path is known, and compares the output of `ngmi path`.
//!
//! They need root and eBPF; without them each test prints "skipped: reason" and is counted (see
//! docs/testing.md).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can't continue should fail on the spot"
)]
#![allow(
    clippy::struct_field_names,
    reason = "fields are named after the columns that ngmi prints"
)]

#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses only part of the shared code"
)]
mod harness;

mod disks;
mod kernel_locks;
mod locks;
mod options;
mod programs;
mod run;
