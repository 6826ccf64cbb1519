//! Rights: what an ordinary user may record with file capabilities, what the command inherits, and whose files are left (docs/privilege.md).
//!
//! It needs root (to make the files and to become the user), eBPF, and `setcap`; without them each test prints "skipped: reason" and is counted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can't go on should stop where it stands"
)]

#[path = "../e2e/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "each test program uses its own part of what they share"
)]
mod harness;

mod environment;
mod files;
mod forged;
mod hidden;
mod lent;
mod mounted;
mod outputs;
mod refused;
mod stolen;
mod unreadable;
mod user;
