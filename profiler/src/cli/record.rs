//! `ngmi record`: see `crate::record`.

use std::process::ExitCode;

use anyhow::Result;

use super::args::Record;
use super::options::RecordOptions;
use super::terminal::{say, tell};
use crate::record::{Outcome, command::exit_code};

pub fn run(args: Record) -> Result<ExitCode> {
    let options = RecordOptions::try_from(args)?;
    let outcome = crate::record::run(&options)?;
    let lost = super::show(&outcome.summary, options.result)?;
    if let Some(log) = &outcome.log {
        tell(format_args!(
            "event log: {} (`ngmi convert` makes a profile of it)",
            log.display()
        ));
    }
    if !options.save_only && !options.result.json {
        say(format_args!("Open it:  ngmi load {}", options.output.display()));
    }
    let code = if lost || outcome.is_cut { 125 } else { status(&outcome) };
    outcome.tables.finish();
    Ok(ExitCode::from(code))
}

/// The command's status is ours; a recording that was interrupted while the command runs on ends like the signal.
fn status(outcome: &Outcome) -> u8 {
    match (outcome.status, outcome.signal) {
        (Some(status), _) => exit_code(status),
        // Watching others, or the system, is ended by Ctrl-C: that is success.
        (None, _) => 0,
    }
}
