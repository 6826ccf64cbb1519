//! `ngmi record`: see `crate::record`.

use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::{Record, Serve};
use super::repeat::{self, RunReporter, numbered};
use super::serve::{self, Served};
use crate::record::options::RecordOptions;
use crate::record::{Outcome, command::exit_code};
use crate::terminal::print_note;

pub fn run(args: Record) -> Result<ExitCode> {
    if let (Some(runs), None) = (args.runs, args.run) {
        return repeat::run(&args, runs);
    }
    if let (Some(number), Some(fd)) = (args.run, args.run_fd) {
        return one_of_many(args, number, RunReporter::new(fd)?);
    }
    let serve = (!args.save_only && !args.result.json).then(|| args.serve.clone());
    let options = RecordOptions::try_from(args)?;
    let outcome = crate::record::run(&options)?;
    let lost = super::show(&outcome.summary, options.result)?;
    if let Some(log) = &outcome.log {
        print_note(format_args!(
            "event log: {} (`ngmi convert` converts it to a profile)",
            log.display()
        ));
    }
    let code = if lost || outcome.is_cut { 125 } else { status(&outcome) };
    outcome.signals.end_with(code);
    // Without a terminal, the user could not stop the server.
    let served = match &serve {
        Some(serve) if !outcome.signals.hung_up() => open(&options, serve, &outcome),
        _ => Ok(()),
    };
    outcome.tables.finish();
    served.map(|()| ExitCode::from(code))
}

/// One of several runs: the process that started it prints the result.
fn one_of_many(mut args: Record, number: u32, reporter: RunReporter) -> Result<ExitCode> {
    args.output = numbered(&args.output, number);
    args.keep_events = args.keep_events.map(|log| numbered(&log, number));
    let options = RecordOptions::try_from(args)?;
    let outcome = crate::record::run(&options)?;
    let lost: u64 = outcome.summary.losses.iter().map(|(_, count)| count).sum();
    let is_failure = outcome.is_cut || options.result.fail_on_loss && lost > 0;
    let code = if is_failure { 125 } else { status(&outcome) };
    reporter.report(&outcome, number, &options.output)?;
    outcome.tables.finish();
    Ok(ExitCode::from(code))
}

/// Serves the profile until Ctrl-C. The profile exists even if that fails.
fn open(options: &RecordOptions, serve: &Serve, outcome: &Outcome) -> Result<()> {
    let run = || {
        serve::run(
            Served::open(&options.output)?,
            serve,
            (&options.source_roots, &options.servers),
            &outcome.environment,
        )
    };
    outcome.signals.left_to(run).with_context(|| {
        let profile = options.output.display();
        format!("the profile was written to {profile} but can't be opened; try `ngmi load {profile}`")
    })
}

/// The exit status is the command's. Without a command, or if it is still running, the recording
/// ended as requested: success.
fn status(outcome: &Outcome) -> u8 {
    outcome.status.map_or(0, exit_code)
}
