//! Arguments of the internal subcommands that `record` starts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::capture::privilege::terms::Terms;

/// `ngmi __capture`
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Inherited descriptor of the socket
    #[arg(long, conflicts_with = "socket")]
    pub fd: Option<i32>,
    /// Listening socket of the recorder
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// The permitted recording: what, and how
    #[arg(long, value_parser = Terms::parse)]
    pub terms: Terms,
}

/// `ngmi __convert`
#[derive(Debug, Args)]
pub struct Inherited {
    /// Inherited descriptor of the socket that carries the instructions
    pub fd: i32,
    /// The instructions may name servers to ask
    #[arg(long)]
    pub network: bool,
}

/// `ngmi __exec`
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Inherited descriptor; one byte on it is the signal to start
    pub fd: i32,
    /// Bit mask of the signals that the command ignores
    #[arg(long, default_value_t)]
    pub ignored: u64,
    /// Command to execute
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// `ngmi __open`
#[derive(Debug, Args)]
pub struct OpenArgs {
    /// Inherited descriptor of the socket that carries the requests
    pub fd: i32,
    /// User ID of the user for whom files are opened
    #[arg(long)]
    pub user: Option<u32>,
}
