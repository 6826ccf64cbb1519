//! `ngmi waits`: tables that add up, selections that partition the waits, and rows that any program
//! can read, despite hostile names.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

#[path = "../made_up/tables.rs"]
mod made_up;
#[path = "../made_up/log.rs"]
mod made_up_log;

mod made;
mod tables;
mod verb;
