//! The arguments of `ngmi io`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::fact::request::Operation;

/// `ngmi io`
#[allow(clippy::struct_excessive_bools)] // Each is a command-line flag.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ngmi io\n  ngmi io firefox.events --file libxul.so\n  \
                  ngmi io firefox.events --process 'kworker*' --operation write\n  ngmi io firefox.events --device vda --csv > requests.csv\n\n\
                  Names may be patterns with * and ?. Repeating an option matches any of its values; different options must all match.")]
pub struct Io {
    /// A profile, or an event log (which lists every request exactly)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// Only this device
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Only requests for this file (base name or path)
    #[arg(long = "file", value_name = "NAME")]
    pub files: Vec<String>,
    /// Only requests by this process (id or name, or the name of a kernel thread)
    #[arg(long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Only requests by this thread (id or name)
    #[arg(long = "thread", value_name = "TID|NAME")]
    pub threads: Vec<String>,
    /// Only requests by this function itself, as in the column `function`
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// Only requests with this function anywhere in the stack
    #[arg(long, value_name = "NAME")]
    pub under: Vec<String>,
    /// Only this operation
    #[arg(long = "operation", value_name = "OPERATION", value_delimiter = ',', value_parser = operation())]
    pub operations: Vec<Operation>,
    /// Only requests at or after this time, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// Only requests before this time, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub to: Option<String>,
    /// Rows per table
    #[arg(long, value_name = "N", default_value = "10", conflicts_with = "format")]
    pub top: usize,
    /// Print all columns as CSV, one row per request, by time
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Print the tables as JSON, with all rows
    #[arg(long, group = "format")]
    pub json: bool,
    /// Like --csv, with each row as a JSON object
    #[arg(long, group = "format")]
    pub ndjson: bool,
}

fn operation() -> impl TypedValueParser<Value = Operation> {
    let named = |name: String| Operation::ALL.into_iter().find(|operation| operation.name() == name);
    PossibleValuesParser::new(Operation::ALL.map(Operation::name)).map(move |name| named(name).unwrap_or_default())
}
