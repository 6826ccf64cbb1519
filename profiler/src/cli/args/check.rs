//! The arguments of `ngmi check`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// `ngmi check`
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("limits").args(["budget", "against"]).required(true).multiple(true),
    after_help = "Examples:\n  ngmi check profile.json.gz --budget budget.toml\n  ngmi check runs/ --budget budget.toml --junit check.xml --github\n  \
                  ngmi check new.events --against old.events --allow 3\n\n\
                  A budget names figures, of all or of one file, function, thread, section or phase:\n\n  \
                  [total]\n  faults = 120_000\n  disk_wait_ms = 2500\n  \
                  [file.\"libxul.so\"]\n  major_faults = { limit = 400, percent = 5 }\n\n\
                  The exit status is 0 if everything is within its limit, 1 if something is over, and 2 for bad input or a figure that nobody can tell."
)]
pub struct Check {
    /// Profiles or event logs, or a folder of them: the median counts
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub inputs: Vec<PathBuf>,
    /// Limits, in TOML: see below
    #[arg(long, value_name = "FILE")]
    pub budget: Option<PathBuf>,
    /// A baseline (repeatable): the budget's figures, else totals, may not be more than in it
    #[arg(long, value_name = "OLD")]
    pub against: Vec<PathBuf>,
    /// How much more than in the baseline is allowed, where the budget does not say it
    #[arg(long, value_name = "PERCENT", requires = "against")]
    pub allow: Option<f64>,
    /// Also write the result as `JUnit` does, in XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Also write annotations for GitHub Actions
    #[arg(long, conflicts_with = "json")]
    pub github: bool,
    /// Print it as JSON: every figure beside its limit
    #[arg(long)]
    pub json: bool,
}
