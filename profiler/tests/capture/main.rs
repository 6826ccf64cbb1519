//! Records test programs through the socket, as the recorder does, and compares the log with what the programs did and
//! with the kernel's counts.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod beginning;
mod births;
mod block;
mod command;
mod coverage;
#[path = "../e2e/harness/emulated.rs"]
mod emulated;
mod endings;
mod exchange;
mod faults;
mod harness;
mod live_threads;
mod movers;
mod overlay;
mod owners;
#[path = "../e2e/harness/page.rs"]
#[allow(dead_code, reason = "C programs have the size by another flag here")]
mod page;
mod program;
mod scopes;
mod selections;
mod stacks;
#[path = "../e2e/harness/taken.rs"]
mod taken;
mod verifier;
mod waits;
mod walks;
