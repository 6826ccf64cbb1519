//! Privileges: what an ordinary user may record with file capabilities, what the command inherits, and who owns the
//! files (docs/privilege.md).
//!
//! The tests need root (to create the files and to become the user), eBPF, and `setcap`; without them each prints
//! "skipped: reason" and is counted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails should stop immediately"
)]

#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses a part of the shared code"
)]
mod harness;

mod environment;
mod file_capabilities;
mod files;
mod forged;
mod hidden;
mod mounted;
mod outputs;
mod refused;
mod stolen;
mod unreadable;
mod user;
