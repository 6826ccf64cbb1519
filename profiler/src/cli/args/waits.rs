//! The arguments of `ngmi waits`.

use std::path::PathBuf;

use clap::Args;

use super::events::{EventFilters, EventOutput, HelpOrder, ordered};
use super::named;
use crate::fact::WaitReason;

const ORDER: &HelpOrder = &[
    ("processes", "Only this process (id or name)"),
    ("threads", "Only this thread (id or name)"),
    ("cgroups", ""),
    ("reasons", ""),
    ("files", "Only waits in system calls on this file (base name or path)"),
    (
        "functions",
        "Only waits in this function itself, as in the column `function`",
    ),
    ("under", "Only waits with this function anywhere in the stack"),
    (
        "from",
        "Only waits that began at or after this time, counted from the start of the recording",
    ),
    (
        "to",
        "Only waits that began before this time, counted from the start of the recording",
    ),
    ("from_marker", ""),
    ("to_marker", ""),
    ("span", ""),
    ("at_least", ""),
    ("locks", ""),
    ("top", ""),
    ("stacks", ""),
    (
        "csv",
        "Print all columns as CSV, one row per wait (with --locks, per holder), by time",
    ),
    ("json", ""),
    ("ndjson", ""),
];

/// `ngmi waits`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi waits\n  ngmi waits LOG --thread firefox --reason disk,lock --stacks\n  \
                  ngmi waits LOG --csv > waits.csv\n  ngmi waits LOG --locks --process firefox\n\n\
                  Names may be patterns with * and ?. Repeating an option matches any of its values; different options must all match.",
    mut_args(|arg| ordered(arg, ORDER))
)]
pub struct Waits {
    /// A profile, or an event log (which lists every wait exactly)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    #[command(flatten)]
    pub(crate) filters: EventFilters,
    /// Only waits for this reason
    #[arg(long = "reason", value_name = "REASON", value_delimiter = ',', value_parser = named(WaitReason::ALL, WaitReason::name))]
    pub reasons: Vec<WaitReason>,
    /// Only waits of at least this duration
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub at_least: Option<String>,
    /// Print locks instead: how long threads waited for each, and what its holders did meanwhile
    #[arg(long)]
    pub locks: bool,
    /// Also print the whole stacks with the most time
    #[arg(long, conflicts_with = "format")]
    pub stacks: bool,
    #[command(flatten)]
    pub(crate) output: EventOutput,
}
