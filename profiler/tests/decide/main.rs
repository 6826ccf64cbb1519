//! What recordings are decided by: figures with known sums, budgets (`ngmi check`), differences (`ngmi diff`).
#![allow(clippy::unwrap_used)] // Tests say what they need by failing.

#[path = "../made_up/tables.rs"]
mod made_up;
#[path = "../made_up/log.rs"]
mod made_up_log;

mod check;
mod diff;
mod figures;
mod made;
mod verb;
