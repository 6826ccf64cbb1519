//! `ngmi` end to end: records programs with known behaviour and checks the profile against it.
//!
//! Every test needs root and eBPF; without them it prints "skipped: reason" and is counted (see docs/testing.md).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can't continue should fail on the spot"
)]

#[path = "harness/emulated.rs"]
mod emulated;
mod foreign;
mod gecko;
mod harness;
#[path = "../profile_synthetic/mod.rs"]
mod profile_synthetic;

mod advice;
mod beginning;
mod births;
mod cgroup_usage;
mod cold;
mod containers;
mod endings;
mod identity;
mod languages;
mod mappings;
mod maps;
mod markers;
mod names;
mod neighbours;
mod open_files;
mod proportions;
mod refusals;
mod runtime_code;
mod scope;
mod serve;
mod servers;
mod stacks;
mod threads;
mod unwritable;
