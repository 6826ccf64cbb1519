//! The arguments of `ngmi diff`.

use std::path::PathBuf;

use clap::Args;

/// `ngmi diff`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi diff old.json.gz new.json.gz\n  ngmi diff old/ new/ --top 20\n  ngmi diff old.*.json.gz --to new.*.json.gz --json\n\n\
                  With sets of runs (`ngmi record --runs`) it tells noise from change; with single ones nobody can."
)]
pub struct Diff {
    /// Two profiles, event logs or folders of them: before and after; with --to, all of before
    #[arg(required = true, value_name = "RECORDING")]
    pub inputs: Vec<PathBuf>,
    /// The recordings after the change; all others are before it
    #[arg(long, value_name = "RECORDING", num_args = 1..)]
    pub to: Vec<PathBuf>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value = "10", conflicts_with = "json")]
    pub top: usize,
    /// Print it as JSON: every row, with the figures of each run
    #[arg(long)]
    pub json: bool,
    /// Also write the difference as a profile: tracks of the change in CPU time, page faults and waits, function by function
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}
