//! The arguments of `ngmi check`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::events::MarkerRange;

/// `ngmi check`
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("limits").args(["budget", "against"]).required(true).multiple(true),
    after_help = "Examples:\n  ngmi check profile.json.gz --budget budget.toml\n  ngmi check runs/ --budget budget.toml --junit check.xml --github\n  \
                  ngmi check new.events --against old.events --allow 3\n  \
                  ngmi check new.events --budget b.toml --from-marker start --to-marker ready\n\n\
                  A budget names metrics, of the whole recording, of one file, function, thread, section or phase, between two markers, or during one:\n\n  \
                  [total]\n  faults = 120_000\n  disk_wait_ms = 2500\n  \
                  [file.\"libxul.so\"]\n  major_faults = { limit = 400, percent = 5 }\n  [markers.\"load..ready\"]\n  wall_ms = 200\n\n\
                  The exit status is 0 if everything is within its limit, 1 if a limit is exceeded, and 2 for bad input or a metric that cannot be determined."
)]
pub struct Check {
    /// Profiles or event logs, or a folder of them (the median is checked)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub inputs: Vec<PathBuf>,
    /// Limits, in TOML (see below)
    #[arg(long, value_name = "FILE")]
    pub budget: Option<PathBuf>,
    /// Baseline recording (repeatable): the budget's metrics, or the totals, may not exceed it
    #[arg(long, value_name = "OLD")]
    pub against: Vec<PathBuf>,
    /// Allowed increase over the baseline, where the budget does not set one
    #[arg(long, value_name = "PERCENT", requires = "against")]
    pub allow: Option<f64>,
    #[command(flatten)]
    pub(crate) markers: MarkerRange,
    /// Also write the result as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Also write annotations for GitHub Actions
    #[arg(long, conflicts_with = "json")]
    pub github: bool,
    /// Print the result as JSON: each metric with its limit
    #[arg(long)]
    pub json: bool,
}
