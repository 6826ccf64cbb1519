//! `ngmi waits`: tables that add up, selections that partition the waits, and rows that any program
//! can read, despite hostile names.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

#[path = "../made_up/tables.rs"]
mod made_up;
#[path = "../made_up/log.rs"]
mod made_up_log;

mod made;
mod tables;
mod verb;
