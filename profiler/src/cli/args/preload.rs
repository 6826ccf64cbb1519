//! The arguments of `ngmi preload`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::values::whole;

/// `ngmi preload`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  ngmi record --cold --save-only -- firefox\n  ngmi preload profile.json.gz -o firefox.preload\n  \
                  ngmi preload run firefox.preload -- firefox\n  ngmi preload run --dry-run firefox.preload"
)]
pub struct Preload {
    /// A profile or event log of a cold start (only an event log is complete)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// Output file; default: standard output (`-`)
    #[arg(short, long, value_name = "LIST")]
    pub output: Option<PathBuf>,
    /// Gaps of up to this many bytes are read instead of skipped; by default learned from the
    /// recording's own reads
    #[arg(long, value_name = "BYTES", value_parser = whole::<u64>)]
    pub gap: Option<u64>,
    /// Read pages together if they are needed within this time
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub within: Option<String>,
    /// What to do with a list.
    #[command(subcommand)]
    pub action: Option<PreloadAction>,
}

/// What to do with a list.
#[derive(Debug, Subcommand)]
pub enum PreloadAction {
    /// Run a program, and read ahead what it will need
    Run(PreloadRun),
}

/// `ngmi preload run`
#[derive(Debug, Args)]
#[command(
    after_help = "The command starts at once, in this process: it has its process id, exit status and signals. If the list can't be \
                  used, a message is printed and the command runs without it."
)]
pub struct PreloadRun {
    /// The list
    pub list: PathBuf,
    /// Run and read nothing; only show what would be read and what has changed
    #[arg(long, conflicts_with = "command")]
    pub dry_run: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "dry_run")]
    pub command: Vec<OsString>,
}
