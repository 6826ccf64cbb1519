//! The privileged helper: loads, attaches and drains; parses no file of the recorded program.
//!
//! [`run`] serves one recording. A recording is a sequence of cycles (`drain::cycle`): rings to log, every 10 to 50 ms
//! (`drain::poll`). At the root is what joins the folders: the service, the session, doctor. A folder uses only those
//! before it: `proc`, `hooks`, `space`, `privilege`, `socket`, `files`, `drain`.
//!
//! What `/proc` says about a process:
//!
//! ```
//! use capture::proc::procfs;
//!
//! let own = std::process::id();
//! assert!(procfs::processes()?.contains(&own));
//! assert!(!procfs::stat(own, own)?.name.is_empty());
//! # Ok::<(), std::io::Error>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))] // A failed unwrap fails the test.

mod checks;
pub mod doctor;
pub mod drain;
pub mod files;
pub mod hooks;
mod judged;
mod pass_on;
pub mod privilege;
pub mod proc;
mod serve;
pub mod session;
pub mod socket;
pub mod space;

pub use doctor::doctor;
pub use serve::run;
