//! `ngmi doctor`: checks the hooks that this machine supports, and prints a table that fits a
//! terminal.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::args::Doctor as Args;
use crate::capture::doctor::{Doctor, doctor};
use crate::event::HookStatus;
use crate::record::sandbox;
use crate::report::text::WIDTH;
use crate::terminal::{fail, out};

/// Returns exit status 0 only if `ngmi record` can run.
pub fn run(args: &Args) -> ExitCode {
    let mut found = doctor();
    found.rows.push(sandbox::status());
    match show(args, &found) {
        Ok(()) if found.refused.is_none() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            fail(&error);
            ExitCode::FAILURE
        }
    }
}

fn show(args: &Args, found: &Doctor) -> Result<()> {
    if !args.json {
        return table(found);
    }
    let report = json!({ "records": found.refused.is_none(), "refused": found.refused, "rows": found.rows });
    out(format_args!("{report:#}"))
}

fn table(found: &Doctor) -> Result<()> {
    let bold = anstyle::Style::new().bold();
    let width = width_of_hooks(&found.rows);
    out(format_args!(
        "{bold}{:<8} {:<width$} status{bold:#}",
        "category", "hook"
    ))?;
    for row in &found.rows {
        self::row(row, width)?;
    }
    match &found.refused {
        None => out("`ngmi record` works here."),
        Some(why) => wrapped("`ngmi record` does not work here: ", why, 0),
    }
}

/// Columns for the hooks' names, which leave space for the others.
fn width_of_hooks(rows: &[HookStatus]) -> usize {
    let names = rows.iter().map(|row| row.hook.chars().count());
    names.max().unwrap_or(0).clamp(4, 60)
}

fn row(row: &HookStatus, width: usize) -> Result<()> {
    let (style, word) = match row.refused {
        None => (anstyle::AnsiColor::Green.on_default(), "yes"),
        Some(_) => (anstyle::AnsiColor::Yellow.on_default(), "no"),
    };
    out(format_args!(
        "{:<8} {:<width$} {style}{word}{style:#}",
        row.noun, row.hook
    ))?;
    for (label, text) in [("why: ", &row.refused), ("remedy: ", &row.remedy)] {
        if let Some(text) = text {
            wrapped(label, text, 9)?;
        }
    }
    Ok(())
}

/// Prints text in lines of at most [`WIDTH`] columns, the first one after `label`, all indented by
/// `indent` spaces.
fn wrapped(label: &str, text: &str, indent: usize) -> Result<()> {
    let mut line = format!("{:indent$}{label}", "");
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out(&line)?;
            line = format!("{:1$}", "", indent + 2);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    out(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_known_hook_is_aligned() {
        let width = |hook: &str| {
            width_of_hooks(&[HookStatus {
                noun: "machine".into(),
                hook: hook.into(),
                refused: None,
                remedy: None,
            }])
        };
        let long = "kernel.perf_event_paranoid 2 (irrelevant for root)";
        assert_eq!((width(long), width("x")), (long.len(), 4));
        assert!(8 + 1 + width(&"x".repeat(200)) + 1 + "status".len() <= WIDTH);
    }
}
