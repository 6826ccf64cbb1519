//! `ngmi waits` as it is typed.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::fact::WaitReason;

/// `ngmi waits`
#[allow(clippy::struct_excessive_bools)] // Each is a flag that a person types.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi waits\n  ngmi waits LOG --thread firefox --reason disk,lock --stacks\n  \
                  ngmi waits LOG --csv > waits.csv\n\n\
                  Names may be patterns with * and ?. Of one option that is given again, any may fit; different ones all have to."
)]
pub struct Waits {
    /// A profile, or an event log (which has every wait, and exactly)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// Only this process: its id or name
    #[arg(long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Only this thread: its id or name
    #[arg(long = "thread", value_name = "TID|NAME")]
    pub threads: Vec<String>,
    /// Only waits for this
    #[arg(long = "reason", value_name = "REASON", value_delimiter = ',', value_parser = reason())]
    pub reasons: Vec<WaitReason>,
    /// Only in system calls about this file: base name or path
    #[arg(long = "file", value_name = "NAME")]
    pub files: Vec<String>,
    /// Only waits of this function's, as the column `function` has it
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// Only waits with this function anywhere in their stack
    #[arg(long, value_name = "NAME")]
    pub under: Vec<String>,
    /// Only those that began from here on, since the recording's start
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// Only those that began before this, since the recording's start
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub to: Option<String>,
    /// Only those that took as long
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub at_least: Option<String>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value = "10", conflicts_with = "format")]
    pub top: usize,
    /// Also the whole stacks with the most time
    #[arg(long, conflicts_with = "format")]
    pub stacks: bool,
    /// All columns, a row a wait, by time
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Print the tables as JSON, with all their rows
    #[arg(long, group = "format")]
    pub json: bool,
    /// As --csv, each row a JSON object
    #[arg(long, group = "format")]
    pub ndjson: bool,
}

fn reason() -> impl TypedValueParser<Value = WaitReason> {
    let named = |name: String| WaitReason::ALL.into_iter().find(|reason| reason.name() == name);
    PossibleValuesParser::new(WaitReason::ALL.map(WaitReason::name)).map(move |name| named(name).unwrap_or_default())
}
