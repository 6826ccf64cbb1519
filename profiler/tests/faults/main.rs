//! End-to-end tests of page faults: programs that know each of their faults are recorded in every tier, and `ngmi faults` must agree with them.
//!
//! Every test runs once per tier, named `fentry`, `tracepoint` or `perf`. It needs root and eBPF. Without them, or if the kernel refuses a
//! tier, the test prints "skipped: reason" and is counted (see docs/testing.md).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot continue should panic at once"
)]

#[path = "../e2e/harness/emulated.rs"]
mod emulated;
#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses only a part of the shared harness"
)]
mod harness;

mod judge;
mod rows;
mod run;
mod said;
mod tier;
mod together;

mod agreement;
mod concurrent;
mod exact;
mod failures;
mod files;
mod images;
mod inside;
mod mapped;
mod memory;
mod names;
mod pressure;
mod represented;
mod subcommand;
mod writes;
