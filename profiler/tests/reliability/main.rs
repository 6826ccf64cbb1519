//! Fault injection: docs/reliability.md's guarantees hold when rings and disks fill up, processes are killed or
//! stopped, and thousands of tasks appear.
//!
//! The tests need root and eBPF; without them each prints "skipped: reason" and is counted (see docs/testing.md).
//! Assertions compare exact accounts or the kernel's own counts, never times: the machine may be slow and busy.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails should stop immediately"
)]

#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses a part of the shared code"
)]
mod harness;

mod log;

mod alone;
mod cost;
mod held;
mod hostile;
mod rings;
mod scale;
mod stops;
mod surroundings;
mod terminal;
