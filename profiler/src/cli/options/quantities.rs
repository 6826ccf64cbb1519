//! Parses numbers and times from the command line, and checks their ranges.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::capture::hooks::governor::Limit;
use crate::capture::hooks::waits::OffCpu;

/// Parses `all`, `off`, or the shortest wait that is recorded individually, as in `1ms` or
/// `>=50us`.
pub(super) fn off_cpu(text: &str) -> Result<OffCpu> {
    match text {
        "all" => return Ok(OffCpu::AtLeast(0)),
        "off" => return Ok(OffCpu::Off),
        _ => {}
    }
    let time = text.strip_prefix(">=").unwrap_or(text).trim();
    let (number, unit) = parts(time);
    let Some(scale) = scale(unit).filter(|_| !unit.is_empty()) else {
        bail!("--off-cpu {text}: expected `all`, `off`, or a time with its unit, such as 100us, 1ms or 0.5s");
    };
    let value: f64 = number
        .parse()
        .ok()
        .with_context(|| format!("--off-cpu {text}: invalid number: `{number}`"))?;
    let ns = value * scale;
    if !(0.0..=4e9).contains(&ns) {
        bail!("--off-cpu {text}: give a time up to 4s");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // its range is checked above
    let ns = ns as u32;
    Ok(OffCpu::AtLeast(ns))
}

/// The limit of `--max-overhead`; `adapts`: whether there is one by default.
pub(super) fn max_overhead(text: Option<&str>, adapts: bool) -> Result<Option<Limit>> {
    let Some(text) = text else {
        return Ok(adapts.then(Limit::default));
    };
    if text == "off" {
        return Ok(None);
    }
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let Some(percent) = number.filter(|percent| (0.01..=100.0).contains(percent)) else {
        bail!("--max-overhead {text}: expected a share from 0.01% to 100%, such as 5%, or `off`");
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // its range is checked above
    let hundredths = (percent * 100.0).round() as u32;
    Ok(Some(Limit {
        share: hundredths,
        is_asked: true,
    }))
}

/// Splits a number from its unit.
fn parts(text: &str) -> (&str, &str) {
    let letters = text.trim_end_matches(|c: char| c.is_alphabetic());
    text.split_at(letters.len())
}

/// Nanoseconds in a unit; no unit means seconds.
fn scale(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        "us" | "µs" => Some(1e3),
        "ms" => Some(1e6),
        "s" | "" => Some(1e9),
        _ => None,
    }
}

/// Parses a time in seconds or with a unit: `1.5`, `250ms`. `None`: invalid.
pub fn in_seconds(text: &str) -> Option<f64> {
    let (number, unit) = parts(text.trim());
    let value: f64 = number.parse().ok()?;
    Some(value * scale(unit)? / 1e9)
}

/// Parses a whole number from `low` to `high`; `what` names the option.
pub(super) fn number(text: &str, what: &str, low: u32, high: u32) -> Result<u32> {
    let value: u64 = text
        .parse()
        .ok()
        .with_context(|| format!("{what} is `{text}`; give a whole number, {low} to {high}"))?;
    match u32::try_from(value) {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => bail!("{what} is {value}; it must be between {low} and {high}"),
    }
}

/// Parses the duration of a recording, 1 ms to a year.
pub(super) fn seconds(text: &str) -> Result<Duration> {
    let value = in_seconds(text).with_context(|| {
        format!("duration (-d) is `{text}`; give seconds, as in `-d 10`, or a unit, as in `-d 500ms`")
    })?;
    match Duration::try_from_secs_f64(value) {
        Ok(duration) if duration >= Duration::from_millis(1) && value <= 31_536_000.0 => Ok(duration),
        _ => bail!("duration (-d) is {text}; it must be between 0.001 s and a year"),
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
    fn a_limit_of_cost_is_a_share() {
        let limit = |text| max_overhead(Some(text), true).unwrap();
        for (text, hundredths) in [("5%", 500), ("5", 500), ("0.01 %", 1), ("2.5%", 250), ("100%", 10_000)] {
            assert_eq!(limit(text).map(|limit| limit.share), Some(hundredths), "{text}");
        }
        assert_eq!(limit("off"), None);
        for text in ["", "%", "0", "-1%", "101%", "five", "NaN%", "inf", "5%%"] {
            assert!(max_overhead(Some(text), true).is_err(), "{text}");
        }
        assert_eq!(max_overhead(None, true).unwrap(), Some(Limit::default()));
        assert_eq!(max_overhead(None, false).unwrap(), None);
    }

    #[test]
    fn a_time_is_in_seconds_or_has_a_unit() {
        for (text, expected) in [
            ("1.5", 1.5),
            ("2s", 2.0),
            ("250ms", 0.25),
            ("50us", 5e-5),
            (" 3 ", 3.0),
            ("-1", -1.0),
        ] {
            assert!((in_seconds(text).unwrap() - expected).abs() < 1e-12, "{text}");
        }
        for text in ["", "s", "ms", "1m", "1 h", "1.2.3", "ten"] {
            assert_eq!(in_seconds(text), None, "{text}");
        }
        assert_eq!(seconds("500ms").unwrap(), Duration::from_millis(500));
        for text in ["nan", "inf", "0.5ms", "-1", "1e9"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_invalid_shortest_wait_names_valid_ones() {
        for (text, remedy) in [
            ("1", "with its unit"),
            ("-1ms", "up to 4s"),
            ("", "with its unit"),
            ("1.2.3ms", "invalid number"),
            ("4.1s", "up to 4s"),
        ] {
            let error = off_cpu(text).unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}
