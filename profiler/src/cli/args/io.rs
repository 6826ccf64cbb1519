//! The arguments of `ngmi io`.

use std::path::PathBuf;

use clap::Args;

use super::events::{EventFilters, EventOutput, HelpOrder, ordered};
use super::named;
use crate::fact::request::Operation;

const ORDER: &HelpOrder = &[
    ("devices", ""),
    ("files", "Only requests for this file (base name or path)"),
    (
        "processes",
        "Only requests by this process (id or name, or the name of a kernel thread)",
    ),
    ("threads", "Only requests by this thread (id or name)"),
    ("cgroups", ""),
    (
        "functions",
        "Only requests by this function itself, as in the column `function`",
    ),
    ("under", "Only requests with this function anywhere in the stack"),
    ("operations", ""),
    (
        "from",
        "Only requests at or after this time, counted from the start of the recording",
    ),
    (
        "to",
        "Only requests before this time, counted from the start of the recording",
    ),
    ("from_marker", ""),
    ("to_marker", ""),
    ("span", ""),
    ("top", ""),
    ("csv", "Print all columns as CSV, one row per request, by time"),
    ("json", ""),
    ("ndjson", ""),
];

/// `ngmi io`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ngmi io\n  ngmi io firefox.events --file libxul.so\n  \
                  ngmi io firefox.events --process 'kworker*' --operation write\n  ngmi io firefox.events --device vda --csv > requests.csv\n\n\
                  Names may be patterns with * and ?. Repeating an option matches any of its values; different options must all match.",
    mut_args(|arg| ordered(arg, ORDER))
)]
pub struct Io {
    /// A profile, or an event log (which lists every request exactly)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    #[command(flatten)]
    pub(crate) filters: EventFilters,
    /// Only this device
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Only this operation
    #[arg(long = "operation", value_name = "OPERATION", value_delimiter = ',', value_parser = named(Operation::ALL, Operation::name))]
    pub operations: Vec<Operation>,
    #[command(flatten)]
    pub(crate) output: EventOutput,
}
