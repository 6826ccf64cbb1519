//! The arguments of `ngmi smaps`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::OutputFormat;
use super::values::whole;

/// `ngmi smaps`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi smaps 1234\n  sudo ngmi smaps 1234 --tree --csv > memory.csv\n  ngmi smaps $$ --with profile.json.gz\n  \
                  ngmi smaps profile.json.gz\n\n\
                  Only root sees exact sections and PSS of pages that other processes map, too."
)]
pub struct Smaps {
    /// A process id; or a profile or event log, to show the memory in it
    #[arg(value_name = "PID|RECORDING")]
    pub what: OsString,
    /// Include the descendants of the process
    #[arg(long)]
    pub tree: bool,
    /// Show which functions touched the pages, according to this profile or event log
    #[arg(long, value_name = "RECORDING")]
    pub with: Option<PathBuf>,
    /// Rows per table
    #[arg(long, value_name = "N", default_value = "10", value_parser = whole::<usize>, conflicts_with = "format")]
    pub top: usize,
    /// Print all columns as CSV, one row per process, file and section
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Print the tables as JSON, with all rows
    #[arg(long, group = "format")]
    pub json: bool,
}

impl Smaps {
    /// The format of the output.
    pub(crate) fn format(&self) -> OutputFormat {
        OutputFormat::of(self.csv, false, self.json)
    }

    /// The process id, if one is given.
    pub fn pid(&self) -> Option<u32> {
        self.what.to_str().and_then(|text| text.parse().ok())
    }
}
