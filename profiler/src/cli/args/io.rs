//! The arguments of `ngmi io`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::fact::request::Operation;

/// `ngmi io`
#[allow(clippy::struct_excessive_bools)] // Each is a flag that a person types.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ngmi io\n  ngmi io firefox.events --file libxul.so\n  \
                  ngmi io firefox.events --process 'kworker*' --operation write\n  ngmi io firefox.events --device vda --csv > requests.csv\n\n\
                  Names may be patterns with * and ?. Of one option that is given again, any may fit; different ones all have to.")]
pub struct Io {
    /// A profile, or an event log (which has every request, and exactly)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// Only this device
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Only what is read or written of this file: base name or path
    #[arg(long = "file", value_name = "NAME")]
    pub files: Vec<String>,
    /// Only what this process asked for: its id or name, or a kernel thread's name
    #[arg(long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Only what this thread asked for: its id or name
    #[arg(long = "thread", value_name = "TID|NAME")]
    pub threads: Vec<String>,
    /// Only what this function asked for, as the column `function` has it
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// Only what was asked for with this function anywhere in the stack
    #[arg(long, value_name = "NAME")]
    pub under: Vec<String>,
    /// Only this operation
    #[arg(long = "operation", value_name = "OPERATION", value_delimiter = ',', value_parser = operation())]
    pub operations: Vec<Operation>,
    /// Only from here on, since the recording's start
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// Only before this, since the recording's start
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub to: Option<String>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value = "10", conflicts_with = "format")]
    pub top: usize,
    /// All columns, a row a request, by time
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Print the tables as JSON, with all their rows
    #[arg(long, group = "format")]
    pub json: bool,
    /// As --csv, each row a JSON object
    #[arg(long, group = "format")]
    pub ndjson: bool,
}

fn operation() -> impl TypedValueParser<Value = Operation> {
    let named = |name: String| Operation::ALL.into_iter().find(|operation| operation.name() == name);
    PossibleValuesParser::new(Operation::ALL.map(Operation::name)).map(move |name| named(name).unwrap_or_default())
}
