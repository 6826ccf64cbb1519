//! Waits and disk requests end to end: records programs that know how long they waited, and for what and which thread, and
//! compares the output of `ngmi waits` and `ngmi io`.
//!
//! They need root and eBPF; without them each test prints "skipped: reason" and is counted (see
//! docs/testing.md).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can't continue should fail on the spot; fields are named as in the JSON"
)]
#![allow(
    clippy::struct_field_names,
    reason = "fields are named after the columns that ngmi prints"
)]

#[path = "../e2e/harness/emulated.rs"]
mod emulated;
#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses only part of the shared code"
)]
mod harness;

mod run;

mod attached;
mod cpu;
mod disk;
mod load;
mod names;
mod others;
