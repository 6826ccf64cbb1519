//! Faults injected: what docs/reliability.md promises holds when rings and disks fill up, processes are killed or stopped, and crowds come.
//!
//! It needs root and eBPF; without them each test prints "skipped: reason" and is counted (see docs/testing.md). Assertions are exact
//! accounts or the kernel's own figures, never times: the machine may be slow and busy.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can't go on should stop where it stands"
)]

#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses its own part of what they share"
)]
mod harness;

mod log;

mod cost;
mod crowds;
mod hostile;
mod rings;
mod stops;
mod surroundings;
mod terminal;
