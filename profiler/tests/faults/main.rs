//! Page faults end to end: programs that know each of their faults are recorded in every tier, and `ngmi faults` has to say the same.
//!
//! Every test runs once a tier, by the names `fentry`, `tracepoint` and `perf`. It needs root and eBPF; without them, or where
//! the kernel refuses a tier, it prints "skipped: reason" and is counted (see docs/testing.md).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can't go on should stop where it stands"
)]

#[path = "../e2e/harness/emulated.rs"]
mod emulated;
#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses its own part of what they share"
)]
mod harness;

mod judge;
mod rows;
mod run;
mod said;
mod tier;
mod together;

mod agreement;
mod crowds;
mod exact;
mod failures;
mod files;
mod images;
mod inside;
mod mapped;
mod memory;
mod names;
mod pressure;
mod verb;
mod writes;
