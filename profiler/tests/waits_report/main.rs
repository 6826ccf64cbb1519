//! `ngmi waits`: tables that add up, selections that partition, rows that any program can read, with names that want to break them.
#![allow(clippy::unwrap_used)] // Tests say what they need by failing.

mod made;
mod tables;
mod verb;
