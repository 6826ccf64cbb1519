//! The subcommands, one thin file each.

pub mod args;
mod check;
mod convert;
mod diff;
mod doctor;
mod events;
pub mod explorer;
mod export;
mod faults;
mod internal;
mod io;
mod lint;
mod load;
mod locks;
mod man;
mod maps;
mod missing;
pub mod options;
mod order;
mod output;
mod outputs;
mod path;
mod preload;
mod record;
mod repeat;
mod runs;
mod scratch;
mod serve;
mod share;
mod smaps;
mod source;
mod span;
mod tables;
mod trim;
mod waits;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::record::options::ResultOptions;
use crate::record::sandbox;
use crate::report::summary::Summary;
use crate::terminal;
use args::{Action, Cli};

/// Runs the command line and returns the exit status: that of the subcommand, 1 for a failure, 2
/// for a check that could not run, 125 for a failed recording.
pub fn main() -> ExitCode {
    let subcommand = Cli::parse().subcommand;
    let failure = match subcommand {
        Action::Record(_) | Action::Exec(_) => 125,
        Action::Check(_) => 2,
        _ => 1,
    };
    run(subcommand).unwrap_or_else(|error| {
        terminal::fail(&error);
        ExitCode::from(failure)
    })
}

fn run(subcommand: Action) -> anyhow::Result<ExitCode> {
    if let Some(outputs) = outputs::of(&subcommand) {
        sandbox::around(&outputs);
    }
    match subcommand {
        Action::Record(record) => record::run(record),
        Action::Convert(convert) => convert::run(convert),
        Action::Load(load) => load::run(&load),
        Action::Share(args) => share::run(&args),
        Action::Trim(args) => trim::run(&args),
        Action::Export(args) => export::run(args),
        Action::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "ngmi", &mut script);
            print(&script)
        }
        Action::Man(args) => man::run(&args),
        Action::Capture(args) => internal::capture(&args),
        Action::Open(args) => internal::open(&args),
        Action::Exec(args) => internal::exec(&args),
        Action::Conversion(inherited) => internal::convert(&inherited),
        Action::DropCaches => internal::drop_caches(),
        Action::Tables(args) => tables::run(&args),
        Action::Lint(args) => lint::run(&args),
        Action::Maps(args) => maps::run(&args),
        Action::Smaps(args) => smaps::run(&args),
        Action::Faults(args) => faults::run(&args),
        Action::Io(args) => io::run(&args),
        Action::Waits(args) => waits::run(&args),
        Action::Path(args) => path::run(&args),
        Action::Order(args) => order::run(&args),
        Action::Preload(args) => preload::run(args),
        Action::Check(args) => check::run(&args),
        Action::Diff(args) => diff::run(&args),
        Action::Doctor(args) => Ok(doctor::run(&args)),
    }
}

/// Prints the summary, and returns whether lost events make the recording a failure.
fn show(summary: &Summary, options: ResultOptions) -> anyhow::Result<bool> {
    if options.json {
        let mut line = serde_json::to_vec_pretty(summary)?;
        line.push(b'\n');
        print(&line)?;
    } else {
        terminal::say(summary);
        summary.notes.iter().for_each(terminal::print_note);
    }
    let lost: u64 = summary.losses.iter().map(|(_, count)| count).sum();
    let failed = options.fail_on_loss && lost > 0;
    if failed {
        terminal::print_note(format_args!("failed because of --fail-on-loss: events lost: {lost}"));
    }
    Ok(failed)
}

/// Writes to standard output; a closed pipe (`| head`) is not an error.
fn print(bytes: &[u8]) -> anyhow::Result<ExitCode> {
    output::to_stdout(&mut std::io::stdout(), |out| out.write_all(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommands_help_fits_a_terminal() {
        let mut command = Cli::command();
        command.build();
        for subcommand in command.get_subcommands_mut() {
            let help = subcommand.render_help().to_string();
            let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(long.is_empty(), "{long:?}");
        }
    }
}
