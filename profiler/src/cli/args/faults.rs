//! The arguments of `ngmi faults`.

use std::path::PathBuf;

use clap::Args;

use super::events::{EventFilters, EventOutput, HelpOrder, ordered};
use super::named;
use crate::fact::fault::FaultClass;

const ORDER: &HelpOrder = &[
    ("files", "Only pages of this file (base name or path)"),
    ("processes", "Only this process (id or name)"),
    ("threads", "Only this thread (id or name)"),
    ("cgroups", ""),
    ("classes", ""),
    (
        "functions",
        "Only faults in this function itself, as in the column `function`",
    ),
    ("under", "Only faults with this function anywhere in the stack"),
    (
        "from",
        "Only faults at or after this time, counted from the start of the recording",
    ),
    (
        "to",
        "Only faults before this time, counted from the start of the recording",
    ),
    ("from_marker", ""),
    ("to_marker", ""),
    ("span", ""),
    ("major", ""),
    ("waited", ""),
    ("top", ""),
    ("list", ""),
    ("csv", "Print all columns as CSV, one row per fault, by time"),
    ("json", ""),
    ("ndjson", ""),
    ("html", ""),
];

/// `ngmi faults`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi faults\n  ngmi faults firefox.events --file libxul.so --list\n  \
                  ngmi faults firefox.events --waited --under 'XPCOM*'\n  ngmi faults firefox.events --file libxul.so --csv > faults.csv\n\n\
                  Names may be patterns with * and ?. Repeating an option matches any of its values; different options must all match.",
    mut_args(|arg| ordered(arg, ORDER))
)]
pub struct Faults {
    /// A profile, or an event log (which lists every fault exactly)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    #[command(flatten)]
    pub(crate) filters: EventFilters,
    /// Only this fault class
    #[arg(long = "class", value_name = "CLASS", value_delimiter = ',', value_parser = named(FaultClass::ALL, FaultClass::name))]
    pub classes: Vec<FaultClass>,
    /// Only faults that the kernel counts as major
    #[arg(long)]
    pub major: bool,
    /// Only faults that waited for a disk, or for another thread's read
    #[arg(long)]
    pub waited: bool,
    /// List the faults on pages of files, by time
    #[arg(long, group = "format")]
    pub list: bool,
    #[command(flatten)]
    pub(crate) output: EventOutput,
    /// Write an interactive page to this file (`-`: standard output); it opens without a network
    #[arg(long, value_name = "FILE", group = "format")]
    pub html: Option<PathBuf>,
}
