//! The arguments of `ngmi waits`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::fact::WaitReason;

/// `ngmi waits`
#[allow(clippy::struct_excessive_bools)] // Each is a command-line flag.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi waits\n  ngmi waits LOG --thread firefox --reason disk,lock --stacks\n  \
                  ngmi waits LOG --csv > waits.csv\n\n\
                  Names may be patterns with * and ?. Repeating an option matches any of its values; different options must all match."
)]
pub struct Waits {
    /// A profile, or an event log (which lists every wait exactly)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// Only this process (id or name)
    #[arg(long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Only this thread (id or name)
    #[arg(long = "thread", value_name = "TID|NAME")]
    pub threads: Vec<String>,
    /// Only waits for this reason
    #[arg(long = "reason", value_name = "REASON", value_delimiter = ',', value_parser = reason())]
    pub reasons: Vec<WaitReason>,
    /// Only waits in system calls on this file (base name or path)
    #[arg(long = "file", value_name = "NAME")]
    pub files: Vec<String>,
    /// Only waits in this function itself, as in the column `function`
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// Only waits with this function anywhere in the stack
    #[arg(long, value_name = "NAME")]
    pub under: Vec<String>,
    /// Only waits that began at or after this time, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// Only waits that began before this time, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub to: Option<String>,
    /// Only waits of at least this duration
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub at_least: Option<String>,
    /// Rows per table
    #[arg(long, value_name = "N", default_value = "10", conflicts_with = "format")]
    pub top: usize,
    /// Also print the whole stacks with the most time
    #[arg(long, conflicts_with = "format")]
    pub stacks: bool,
    /// Print all columns as CSV, one row per wait, by time
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Print the tables as JSON, with all rows
    #[arg(long, group = "format")]
    pub json: bool,
    /// Like --csv, with each row as a JSON object
    #[arg(long, group = "format")]
    pub ndjson: bool,
}

fn reason() -> impl TypedValueParser<Value = WaitReason> {
    let named = |name: String| WaitReason::ALL.into_iter().find(|reason| reason.name() == name);
    PossibleValuesParser::new(WaitReason::ALL.map(WaitReason::name)).map(move |name| named(name).unwrap_or_default())
}
