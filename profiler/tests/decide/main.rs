//! What recordings are decided by: figures with known sums, budgets (`ngmi check`), differences (`ngmi diff`), repeated runs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can't go on should stop where it stands"
)]

#[path = "../made_up/tables.rs"]
mod made_up;
#[path = "../made_up/log.rs"]
mod made_up_log;

#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses its own part of what they share"
)]
mod harness;

mod check;
mod diff;
mod figures;
mod made;
mod recipes;
mod recorded;
mod verb;
