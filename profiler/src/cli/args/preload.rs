//! The arguments of `ngmi preload`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `ngmi preload`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  ngmi record --cold --save-only -- firefox\n  ngmi preload profile.json.gz -o firefox.preload\n  \
                  ngmi preload run firefox.preload -- firefox\n  ngmi preload run --dry-run firefox.preload"
)]
pub struct Preload {
    /// A profile, or an event log (which has everything) of a cold start
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// Where the list goes; `-`, or nothing given: to standard output
    #[arg(short, long, value_name = "LIST")]
    pub output: Option<PathBuf>,
    /// Bytes that are rather read than skipped; as a rule learned from the recording's own reads
    #[arg(long, value_name = "BYTES")]
    pub gap: Option<u64>,
    /// Read together what is needed within this time
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub within: Option<String>,
    /// What to do with a list.
    #[command(subcommand)]
    pub action: Option<PreloadAction>,
}

/// What to do with a list.
#[derive(Debug, Subcommand)]
pub enum PreloadAction {
    /// Run a program, and meanwhile read ahead what it is going to need
    Run(PreloadRun),
}

/// `ngmi preload run`
#[derive(Debug, Args)]
#[command(
    after_help = "The command starts at once, as this very process: its id, its exit status and its signals are its own. A list that can't be \
                  used is told, and the command runs without it."
)]
pub struct PreloadRun {
    /// The list
    pub list: PathBuf,
    /// Run nothing and read nothing: say what would be read, and what has changed
    #[arg(long, conflicts_with = "command")]
    pub dry_run: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "dry_run")]
    pub command: Vec<OsString>,
}
