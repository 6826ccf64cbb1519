//! The arguments of `ngmi trim`.

use std::path::PathBuf;

use clap::Args;

/// `ngmi trim`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi trim firefox.json.gz --from 1.5 --to 3 -o start.json.gz\n  \
                  ngmi trim firefox.json.gz --process 'Web Content' -o tab.json.gz\n\n\
                  Names may be patterns with * and ?. Waits and markers are cut to the time; page faults and disk requests that overlap it stay whole."
)]
pub struct Trim {
    /// The profile
    #[arg(default_value = "profile.json.gz")]
    pub profile: PathBuf,
    /// Where the smaller profile goes: a file, as standard output (`-`) is not supported
    #[arg(short, long, value_name = "FILE", value_parser = super::file::file())]
    pub output: PathBuf,
    /// Only from here on, since the recording's start
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub from: Option<String>,
    /// Only before this, since the recording's start
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub to: Option<String>,
    /// Only this process: its id, its name or its main thread's (repeatable)
    #[arg(long = "process", value_name = "PID|NAME")]
    pub processes: Vec<String>,
}
