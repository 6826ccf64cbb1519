//! The arguments of `ngmi trim`.

use std::path::PathBuf;

use clap::Args;

/// `ngmi trim`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi trim firefox.json.gz --from 1.5 --to 3 -o start.json.gz\n  \
                  ngmi trim firefox.json.gz --process 'Web Content' -o tab.json.gz\n\n\
                  Names may be patterns with * and ?. Waits and markers are cut to the time range; page faults and block requests that overlap it are kept whole."
)]
pub struct Trim {
    /// The profile to trim
    #[arg(default_value = "profile.json.gz")]
    pub profile: PathBuf,
    /// Output file (standard output, `-`, is not supported)
    #[arg(short, long, value_name = "FILE", value_parser = super::file::file())]
    pub output: PathBuf,
    /// Start of the time range to keep, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// End of the time range to keep, counted from the start of the recording
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub to: Option<String>,
    /// Keep this process (id, name, or name of the main thread; repeatable)
    #[arg(long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
}
