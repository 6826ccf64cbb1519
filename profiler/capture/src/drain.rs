//! From rings to log: one cycle of draining, records to events, which processes are recorded, and what exists at a
//! recording's beginning and end.

pub(crate) mod asleep;
pub mod cycle;
mod early;
mod file_names;
pub(crate) mod fill;
pub(crate) mod header;
mod left_out;
pub mod live_threads;
pub mod log;
mod owners;
pub mod poll;
pub mod records;
pub mod scope;
pub(crate) mod selected;
pub mod snapshot;
pub(crate) mod threads;
mod usage;
