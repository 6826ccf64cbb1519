//! The arguments of `ngmi load`, and those of every subcommand that opens a profile.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::Servers;
use super::values::whole;

/// `ngmi load`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi load\n  ngmi load firefox.json.gz --no-open\n  ngmi load --profiler-url http://localhost:4242\n  ngmi load firefox.json.gz --merge gecko.json\n\n\
                  The server answers only the profiler's page, and only requests with the random token from the link."
)]
pub struct Load {
    /// The profile to open
    #[arg(default_value = "profile.json.gz")]
    pub profile: PathBuf,
    /// Add the markers of this file, which the browser wrote during the recording: a profile of
    /// Firefox's own profiler, or a trace of Chrome in JSON
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
    /// With --merge: write the profile to this file instead of opening it
    #[arg(short, long, value_name = "FILE", requires = "merge", value_parser = super::file::file())]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    /// How the profile is opened.
    pub serve: Serve,
    #[command(flatten)]
    /// Where sources may be read.
    pub sources: Sources,
    #[command(flatten)]
    /// Which servers may be asked.
    pub servers: Servers,
}

/// How a profile is opened.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Opening the profile")]
pub struct Serve {
    /// Port to serve the profile on; 0 for any free port
    #[arg(long, default_value = "0", value_parser = whole::<u16>)]
    pub port: u16,
    /// Print the link without starting a browser
    #[arg(long)]
    pub no_open: bool,
    /// URL of a self-hosted profiler, instead of Mozilla's
    #[arg(long, value_name = "URL", env = "NGMI_PROFILER_URL", default_value = web::PROFILER_URL,
        value_parser = web::ProfilerUrl::new)]
    pub profiler_url: web::ProfilerUrl,
    /// Address to listen on instead of 127.0.0.1; makes the profile reachable from the network
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<IpAddr>,
    /// Download sources that are not on this machine, from debuginfod or the repository of a
    /// release
    #[arg(long)]
    pub fetch_source: bool,
}

/// Where sources may be read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
#[command(next_help_heading = "Sources")]
pub struct Sources {
    /// Also read sources below this folder (repeatable); default: home, the working directory,
    /// /usr, /opt
    #[arg(long, value_name = "FOLDER")]
    pub source_root: Vec<PathBuf>,
}
