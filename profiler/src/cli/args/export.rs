//! The arguments of `ngmi export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::events::MarkerRange;
use super::named;
use crate::report::interchange::{Table, Weight};

const OF_PATH: &str = "Critical path (--table path)";

/// `ngmi export`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi export profile.json.gz --format pprof --table samples,waits -o firefox.pb.gz\n  \
                  ngmi export firefox.events --format parquet -o faults.parquet\n  \
                  ngmi export profile.json.gz --format folded --weight count -o - | inferno-flamegraph > faults.svg"
)]
pub struct Export {
    /// A profile, or an event log (complete and exact)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: ExportFormat,
    /// Tables to export: samples, faults, requests, waits or path, the critical path (several for
    /// pprof and otlp). Default: faults, or samples for a profile from another program, which
    /// contains nothing else
    #[arg(
        long = "table",
        value_name = "TABLE",
        value_delimiter = ',',
        hide_possible_values = true,
        value_parser = named(Table::ALL, Table::name)
    )]
    pub tables: Vec<Table>,
    /// Output file; `-` for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Weight of folded stacks: time (ns), count or bytes
    #[arg(long, value_name = "WEIGHT", hide_possible_values = true, value_parser = named(Weight::ALL, Weight::name))]
    pub weight: Option<Weight>,
    /// The thread, by id or name (`*` matches any text). Default: the command's first thread
    #[arg(long = "thread", value_name = "THREAD", help_heading = OF_PATH)]
    pub threads: Vec<String>,
    #[command(flatten, next_help_heading = OF_PATH)]
    pub(crate) markers: MarkerRange,
}

/// `--format`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Sums by stack, for pprof, Pyroscope, Parca
    Pprof,
    /// Sums by stack, for the OpenTelemetry collector
    Otlp,
    /// One row per event, for databases and data frames
    Parquet,
    /// Sums by stack, for flame graphs
    Folded,
}
