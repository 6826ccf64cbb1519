//! The half that runs as the user: starts the command, watches over the recording, and finishes it.

pub mod command;
pub mod identity;
pub mod privilege;
pub mod session;
pub mod spool;
pub mod watch;
