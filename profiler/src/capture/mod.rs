//! The privileged half: loads, attaches and drains; parses no file of the recorded program.
//!
//! [`run`] serves one recording. A recording is a sequence of cycles (`drain`): rings to log, every 10 to 50 ms (`pace`).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))] // A failed unwrap fails the test.

mod ahead;
mod asleep;
pub mod attach;
mod bounds;
pub mod btf;
pub mod capabilities;
pub mod channel;
pub mod daemon;
mod debugfs;
pub mod disks;
pub mod doctor;
pub mod drain;
mod early;
pub mod exact_touch;
pub mod faults;
mod file_capabilities;
mod file_names;
pub mod files;
mod fill;
pub mod generations;
mod hotplug;
pub mod kallsyms;
pub mod link;
pub mod live_threads;
pub mod load;
pub mod log;
pub mod losses;
pub mod machine;
pub mod mappings;
pub mod maps;
pub mod memory;
pub mod meter;
mod missed;
mod mounts;
pub mod open_files;
pub mod opener;
mod packet;
pub mod page_cache;
mod pass_on;
mod perf;
pub mod perf_maps;
pub mod poll;
mod preempt;
pub mod procfs;
pub mod protocol;
pub mod ranges;
pub mod records;
pub mod require;
pub mod rights;
pub mod same_file;
pub mod scope;
mod segments;
mod serve;
pub mod session;
pub mod snapshot;
pub mod space;
pub mod tables;
pub mod terms;
mod threads;
pub mod waits;
pub mod wire;

pub use doctor::doctor;
pub use serve::run;
