//! The arguments of `ngmi smaps`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// `ngmi smaps`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi smaps 1234\n  sudo ngmi smaps 1234 --tree --csv > memory.csv\n  ngmi smaps $$ --with profile.json.gz\n  \
                  ngmi smaps profile.json.gz\n\n\
                  Sections and PSS: pages that others map too have a known share only for root."
)]
pub struct Smaps {
    /// The process; or a profile or an event log, for what it knows
    #[arg(value_name = "PID|RECORDING")]
    pub what: OsString,
    /// Its descendants, too
    #[arg(long)]
    pub tree: bool,
    /// Say which functions touched the pages, as far as this profile or event log knows
    #[arg(long, value_name = "RECORDING")]
    pub with: Option<PathBuf>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value = "10", conflicts_with = "format")]
    pub top: usize,
    /// All columns, a row a process, file and section
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Print the tables as JSON, with all their rows
    #[arg(long, group = "format")]
    pub json: bool,
}

impl Smaps {
    /// The process, if it is one.
    pub fn pid(&self) -> Option<u32> {
        self.what.to_str().and_then(|text| text.parse().ok())
    }
}
