//! `ngmi waits`: tables that add up, selections that partition the waits, and rows that any program
//! can read, despite hostile names.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

#[path = "../fixtures/log.rs"]
mod fixture_log;
#[path = "../fixtures/tables.rs"]
mod fixtures;

mod made;
mod subcommand;
mod tables;
