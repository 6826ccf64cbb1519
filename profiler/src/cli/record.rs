//! `ngmi record`: see `crate::record`.

use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::{Record, Serve};
use super::options::RecordOptions;
use super::terminal::tell;
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
    let code = if lost || outcome.is_cut { 125 } else { status(&outcome) };
    let served = match &options.serve {
        Some(serve) => open(&options, serve, &outcome),
        None => Ok(()),
    };
    outcome.tables.finish();
    served.map(|()| ExitCode::from(code))
}

/// Serves the profile until Ctrl-C. The profile is there even if that fails.
fn open(options: &RecordOptions, serve: &Serve, outcome: &Outcome) -> Result<()> {
    let run = || super::serve::run(&options.output, serve, &options.source_roots, &outcome.environment);
    outcome.signals.left_to(run).with_context(|| {
        let profile = options.output.display();
        format!("the profile is in {profile}, but it can't be opened; `ngmi load {profile}` tries again")
    })
}

/// The command's status is ours; a recording that was interrupted while the command runs on ends like the signal.
fn status(outcome: &Outcome) -> u8 {
    match (outcome.status, outcome.signal) {
        (Some(status), _) => exit_code(status),
        // Watching others, or the system, is ended by Ctrl-C: that is success.
        (None, _) => 0,
    }
}
