//! The arguments of `ngmi share`.

use std::path::PathBuf;

use clap::Args;

/// `ngmi share`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi share firefox.json.gz\n  ngmi share --sanitize --yes firefox.json.gz\n  ngmi share --list\n  \
                  ngmi share --delete https://share.firefox.dev/3abcdef\n\n\
                  Before the upload, ngmi lists what the profile reveals. Anyone with the link can read it until it is deleted."
)]
pub struct Share {
    /// The profile to upload
    #[arg(default_value = "profile.json.gz", conflicts_with_all = ["list", "delete"])]
    pub profile: PathBuf,
    /// Upload without confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Remove home folders, user and machine names, addresses, and arguments
    #[arg(long)]
    pub sanitize: bool,
    /// With --sanitize: also remove this name (repeatable)
    #[arg(long = "remove-name", value_name = "NAME", requires = "sanitize")]
    pub remove_names: Vec<String>,
    /// With --sanitize: keep this name where it is not part of a home folder (repeatable)
    #[arg(long = "keep-name", value_name = "NAME", requires = "sanitize")]
    pub keep_names: Vec<String>,
    /// List the profiles that you shared from this machine
    #[arg(long, conflicts_with_all = ["yes", "sanitize"])]
    pub list: bool,
    /// Delete the profile that was shared under this link
    #[arg(long, value_name = "LINK", conflicts_with_all = ["list", "yes", "sanitize"])]
    pub delete: Option<String>,
    /// URL of a self-hosted profiler for the link, instead of Mozilla's
    #[arg(long, value_name = "URL", env = "NGMI_PROFILER_URL", default_value = web::PROFILER_URL,
        value_parser = web::ProfilerUrl::new)]
    pub profiler_url: web::ProfilerUrl,
    /// URL of the service that stores profiles
    #[arg(long, value_name = "URL", env = "NGMI_PROFILER_API", default_value = web::share::API_URL)]
    pub api_url: String,
}
