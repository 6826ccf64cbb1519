//! The time range of a recording that a subcommand selects.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::options::in_seconds;

/// Parses `--from` and `--to`.
pub fn times(from: Option<&str>, to: Option<&str>) -> Result<(Option<Duration>, Option<Duration>)> {
    let time = |text: Option<&str>, option| text.map(|text| moment(text, option)).transpose();
    let (from, to) = (time(from, "--from")?, time(to, "--to")?);
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        bail!("--from is not before --to, so the time range is empty");
    }
    Ok((from, to))
}

/// Parses a time since the start, or a duration.
pub fn moment(text: &str, option: &str) -> Result<Duration> {
    let value = in_seconds(text).with_context(|| {
        format!("{option} is `{text}`; give seconds, as in `{option} 1.5`, or a unit, as in `{option} 20ms`")
    })?;
    Duration::try_from_secs_f64(value)
        .ok()
        .with_context(|| format!("{option} is {text}; give seconds since the start, at least 0"))
}
