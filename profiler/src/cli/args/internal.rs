//! Arguments of the internal subcommands that `record` starts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::capture::terms::Terms;

/// `ngmi __capture`
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Inherited descriptor of the socket
    #[arg(long, conflicts_with = "socket")]
    pub fd: Option<i32>,
    /// Listening socket of the recorder
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// What may be recorded, and how
    #[arg(long, value_parser = Terms::parse)]
    pub terms: Terms,
}

/// `ngmi __convert`
#[derive(Debug, Args)]
pub struct Inherited {
    /// Inherited descriptor of the socket that carries the instructions
    pub fd: i32,
}

/// `ngmi __exec`
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Inherited descriptor; one byte on it is the signal to start
    pub fd: i32,
    /// Bit mask of the signals that it ignores
    #[arg(long, default_value_t)]
    pub ignored: u64,
    /// Command to execute
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// `ngmi __open`
#[derive(Debug, Args)]
pub struct OpenArgs {
    /// An inherited descriptor of a socket, on which it is told what to open
    pub fd: i32,
    /// For whom
    #[arg(long)]
    pub user: Option<u32>,
}
