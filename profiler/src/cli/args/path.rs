//! The arguments of `ngmi path`.

use std::path::PathBuf;

use clap::Args;

use super::events::{EventOutput, HelpOrder, MarkerRange, ordered};

const ORDER: &HelpOrder = &[
    ("threads", ""),
    ("processes", ""),
    ("from", ""),
    ("to", ""),
    ("from_marker", ""),
    ("to_marker", ""),
    ("span", ""),
    ("top", ""),
    (
        "csv",
        "Print all columns as CSV, one row per piece of the path, by time",
    ),
    ("json", ""),
    ("ndjson", ""),
];

/// `ngmi path`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi path\n  ngmi path LOG --thread firefox --to-marker load\n  \
                  ngmi path LOG --span paint\n  ngmi path LOG --from 0.5 --to 1.2 --csv > path.csv\n\n\
                  Names may be patterns with * and ?. Repeating an option matches any of its values; different options must all match.",
    mut_args(|arg| ordered(arg, ORDER))
)]
pub struct Path {
    /// A profile, or an event log (which has every wait exactly)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// Thread (id or name); default: the command's first, else the one that ran longest
    #[arg(long = "thread", value_name = "TID|NAME")]
    pub threads: Vec<String>,
    /// Only threads of this process (id or name); of several, the path of the one that lived longest
    #[arg(long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// From this time on, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, conflicts_with_all = ["from_marker", "span"])]
    pub from: Option<String>,
    /// Up to this time, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, conflicts_with_all = ["to_marker", "span"])]
    pub to: Option<String>,
    #[command(flatten)]
    pub(crate) markers: MarkerRange,
    #[command(flatten)]
    pub(crate) output: EventOutput,
}
