//! ngmi records what a program does and waits for, and writes it as a Firefox Profiler profile.
//!
//! Data flows one way, through one crate for each layer; see docs/architecture.md for the map. `capture`, and `record`
//! in this crate, are shells around the pure layers `base`, `task`, `unwind`, `fact`, `profile` and `report`, which are
//! here under their names; `cli` contains the subcommands.
//!
//! Arguments are parsed before anything else happens:
//!
//! ```
//! use clap::CommandFactory as _;
//!
//! profiler::cli::args::Cli::command().debug_assert();
//! ```

pub mod cli;
pub mod record;
pub mod terminal;

pub use base::{addr, block_pages, event, hash, hex, owner, plural, similar, table};
pub use {capture, fact, profile, report, task, unwind};
