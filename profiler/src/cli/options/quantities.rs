//! Numbers and times that a person types, checked against their ranges.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::capture::waits::OffCpu;

/// `all`, `off`, or the shortest wait that counts for itself, as in `1ms` or `>=50us`.
pub(super) fn off_cpu(text: &str) -> Result<OffCpu> {
    match text {
        "all" => return Ok(OffCpu::AtLeast(0)),
        "off" => return Ok(OffCpu::Off),
        _ => {}
    }
    let time = text.strip_prefix(">=").unwrap_or(text).trim();
    let split = time
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(time.len());
    let (number, unit) = time.split_at(split);
    let scale = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => bail!("--off-cpu {text}: give all, off, or a time with its unit such as 100us, 1ms or 0.5s"),
    };
    let value: f64 = number
        .parse()
        .ok()
        .with_context(|| format!("--off-cpu {text}: {number} is no number"))?;
    let ns = value * scale;
    if !(0.0..=4e9).contains(&ns) {
        bail!("--off-cpu {text}: give a time up to 4s");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // its range is checked above
    let ns = ns as u32;
    Ok(OffCpu::AtLeast(ns))
}

/// A whole number from `low` to `high`; `what` names the option.
pub(super) fn number(text: &str, what: &str, low: u32, high: u32) -> Result<u32> {
    let value: u64 = text
        .parse()
        .with_context(|| format!("{what} is `{text}`; give a whole number, {low} to {high}"))?;
    match u32::try_from(value) {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => bail!("{what} is {value}; it has to be between {low} and {high}"),
    }
}

/// How long to record: 1 ms to a year, typed in seconds.
pub(super) fn seconds(text: &str) -> Result<Duration> {
    let value: f64 = text
        .parse()
        .with_context(|| format!("duration (-d) is `{text}`; give seconds, as in `-d 10`"))?;
    match Duration::try_from_secs_f64(value) {
        Ok(duration) if duration >= Duration::from_millis(1) && value <= 31_536_000.0 => Ok(duration),
        _ => bail!("duration (-d) is {text} s; it has to be between 0.001 s and a year"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortest_wait_has_a_unit() {
        for (text, expected) in [
            ("all", OffCpu::AtLeast(0)),
            ("off", OffCpu::Off),
            ("250ns", OffCpu::AtLeast(250)),
            (">=50us", OffCpu::AtLeast(50_000)),
            (">= 1.5ms", OffCpu::AtLeast(1_500_000)),
            ("4s", OffCpu::AtLeast(4_000_000_000)),
        ] {
            assert_eq!(off_cpu(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_bad_shortest_wait_says_what_to_give() {
        for (text, remedy) in [
            ("1", "with its unit"),
            ("-1ms", "with its unit"),
            ("", "with its unit"),
            ("1.2.3ms", "is no number"),
            ("4.1s", "up to 4s"),
        ] {
            let error = off_cpu(text).unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}
