//! The arguments of `ngmi diff`.

use std::path::PathBuf;

use clap::Args;

use super::values::whole;

/// `ngmi diff`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi diff old.json.gz new.json.gz\n  ngmi diff old/ new/ --top 20\n  ngmi diff old.*.json.gz --to new.*.json.gz --json\n\n\
                  Sets of runs (`ngmi record --runs`) distinguish changes from noise; single recordings cannot."
)]
pub struct Diff {
    /// Two profiles, event logs or folders of them, before and after; with --to, all recordings
    /// before the change
    #[arg(required = true, value_name = "RECORDING")]
    pub inputs: Vec<PathBuf>,
    /// The recordings after the change; all others are from before it
    #[arg(long, value_name = "RECORDING", num_args = 1..)]
    pub to: Vec<PathBuf>,
    /// Rows per table
    #[arg(long, value_name = "N", default_value = "10", value_parser = whole::<usize>, conflicts_with = "json")]
    pub top: usize,
    /// Print the tables as JSON: every row, with the values of each run
    #[arg(long)]
    pub json: bool,
    /// Also write the difference as a profile, with tracks of the change in CPU time, page faults
    /// and waits by function
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}
