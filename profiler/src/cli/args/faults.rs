//! The arguments of `ngmi faults`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::fact::fault::FaultClass;

/// `ngmi faults`
#[allow(clippy::struct_excessive_bools)] // Each is a command-line flag.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi faults\n  ngmi faults firefox.events --file libxul.so --list\n  \
                  ngmi faults firefox.events --waited --under 'XPCOM*'\n  ngmi faults firefox.events --file libxul.so --csv > faults.csv\n\n\
                  Names may be patterns with * and ?. Repeating an option matches any of its values; different options must all match."
)]
pub struct Faults {
    /// A profile, or an event log (which lists every fault exactly)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// Only pages of this file (base name or path)
    #[arg(long = "file", value_name = "NAME")]
    pub files: Vec<String>,
    /// Only this process (id or name)
    #[arg(long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
    /// Only this thread (id or name)
    #[arg(long = "thread", value_name = "TID|NAME")]
    pub threads: Vec<String>,
    /// Only this fault class
    #[arg(long = "class", value_name = "CLASS", value_delimiter = ',', value_parser = fault_class())]
    pub classes: Vec<FaultClass>,
    /// Only faults in this function itself, as in the column `function`
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// Only faults with this function anywhere in the stack
    #[arg(long, value_name = "NAME")]
    pub under: Vec<String>,
    /// Only faults at or after this time, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// Only faults before this time, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub to: Option<String>,
    /// Only faults that the kernel counts as major
    #[arg(long)]
    pub major: bool,
    /// Only faults that waited for a disk, or for another thread's read
    #[arg(long)]
    pub waited: bool,
    /// Rows per table
    #[arg(long, value_name = "N", default_value = "10", conflicts_with = "format")]
    pub top: usize,
    /// List the faults on pages of files, by time
    #[arg(long, group = "format")]
    pub list: bool,
    /// Print all columns as CSV, one row per fault, by time
    #[arg(long, group = "format")]
    pub csv: bool,
    /// Print the tables as JSON, with all rows
    #[arg(long, group = "format")]
    pub json: bool,
    /// Like --csv, with each row as a JSON object
    #[arg(long, group = "format")]
    pub ndjson: bool,
    /// Write an interactive page to this file; it opens without a network
    #[arg(long, value_name = "FILE", group = "format")]
    pub html: Option<PathBuf>,
}

fn fault_class() -> impl TypedValueParser<Value = FaultClass> {
    let named = |name: String| FaultClass::ALL.into_iter().find(|class| class.name() == name);
    PossibleValuesParser::new(FaultClass::ALL.map(FaultClass::name)).map(move |name| named(name).unwrap_or_default())
}
