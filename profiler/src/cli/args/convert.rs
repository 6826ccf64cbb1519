//! The arguments of `ngmi convert`.

use std::path::PathBuf;

use clap::Args;

use super::file::file;
use super::{ResultArgs, Servers, Sources};

/// `ngmi convert`
#[derive(Debug, Args)]
pub struct Convert {
    /// The event log
    pub log: PathBuf,
    /// Output file (standard output, `-`, is not supported)
    #[arg(short, long, value_name = "FILE", default_value = "profile.json.gz", value_parser = file())]
    pub output: PathBuf,
    #[command(flatten)]
    /// Where sources may be read.
    pub sources: Sources,
    #[command(flatten)]
    /// Which servers may be asked.
    pub servers: Servers,
    #[command(flatten)]
    /// How the result is reported.
    pub result: ResultArgs,
}
