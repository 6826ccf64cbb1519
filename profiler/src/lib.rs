//! ngmi records what a program does and waits for, and writes it as a Firefox Profiler profile.
//!
//! Data flows one way, down this list of modules; see docs/architecture.md for the map. `capture` and `record` are
//! shells around the pure layers `event`, `task`, `unwind`, `fact`, `profile` and `report`; `cli` contains the subcommands.

pub mod cli;
pub mod record;
pub mod terminal;

pub use base::{addr, event, hash, id, plural, table};
pub use {capture, fact, profile, report, task, unwind};
