//! `ngmi waits`: tables that add up, selections that partition the waits, and rows that any program
//! can read, despite hostile names.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod locks;
mod made;
mod path_page;
mod subcommand;
mod tables;
