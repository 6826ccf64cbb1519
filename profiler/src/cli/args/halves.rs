//! What `record` says to the processes that it starts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::capture::terms::Terms;

/// `ngmi __capture`
#[derive(Debug, Args)]
pub struct CaptureHalf {
    /// An inherited descriptor of the socket
    #[arg(long, conflicts_with = "socket")]
    pub fd: Option<i32>,
    /// The record half's listening socket
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// What may be recorded, and how
    #[arg(long, value_parser = Terms::parse)]
    pub terms: Terms,
}

/// `ngmi __convert`
#[derive(Debug, Args)]
pub struct Inherited {
    /// An inherited descriptor of a socket, on which it is told what to do
    pub fd: i32,
}

/// `ngmi __exec`
#[derive(Debug, Args)]
pub struct ExecHalf {
    /// An inherited descriptor: one byte on it means go
    pub fd: i32,
    /// What to become
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}
