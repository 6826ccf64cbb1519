//! `ngmi waits`: tables that add up, selections that partition, rows that any program can read, with names that want to break them.
#![allow(clippy::unwrap_used)] // Tests say what they need by failing.

#[path = "../made_up/tables.rs"]
mod made_up;
#[path = "../made_up/log.rs"]
mod made_up_log;

mod made;
mod tables;
mod verb;
