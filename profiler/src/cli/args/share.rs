//! The arguments of `ngmi share`.

use std::path::PathBuf;

use clap::Args;

/// `ngmi share`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi share firefox.json.gz\n  ngmi share --sanitize --yes firefox.json.gz\n  ngmi share --list\n  \
                  ngmi share --delete https://share.firefox.dev/3abcdef\n\n\
                  Before anything is sent, it is told what the profile reveals. Whoever has the link can read it, until it is deleted."
)]
pub struct Share {
    /// The profile
    #[arg(default_value = "profile.json.gz", conflicts_with_all = ["list", "delete"])]
    pub profile: PathBuf,
    /// Upload without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Remove home folders, names of users and of the machine, addresses, and arguments
    #[arg(long)]
    pub sanitize: bool,
    /// With --sanitize: remove this name, too; may be repeated
    #[arg(long = "remove-name", value_name = "NAME", requires = "sanitize")]
    pub remove_names: Vec<String>,
    /// With --sanitize: keep this name where it is not part of a home folder; may be repeated
    #[arg(long = "keep-name", value_name = "NAME", requires = "sanitize")]
    pub keep_names: Vec<String>,
    /// List what was shared from here
    #[arg(long, conflicts_with_all = ["yes", "sanitize"])]
    pub list: bool,
    /// Delete what was shared under this link
    #[arg(long, value_name = "LINK", conflicts_with_all = ["list", "yes", "sanitize"])]
    pub delete: Option<String>,
    /// A front end of one's own instead of Mozilla's: the link leads there
    #[arg(long, value_name = "URL", env = "NGMI_PROFILER_URL", default_value = web::PROFILER_URL)]
    pub profiler_url: String,
    /// Where the front end keeps profiles
    #[arg(long, value_name = "URL", env = "NGMI_PROFILER_API", default_value = web::share::API_URL)]
    pub api_url: String,
}
