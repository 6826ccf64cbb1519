//! What decisions are based on: metrics with known sums, budgets (`ngmi check`), comparisons
//! (`ngmi diff`) and repeated runs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can't continue should fail on the spot"
)]

#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses only part of the shared code"
)]
mod harness;

mod between;
mod check;
mod diff;
mod made;
mod metrics;
mod path;
mod recipes;
mod recorded;
mod subcommand;
