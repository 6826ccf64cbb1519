//! `ngmi smaps`: prints the memory of a process by file and section, or the memory that a recording
//! knows of.

mod process;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::Smaps;
use super::events::print;
use super::scratch::Scratch;
use super::source::Kind;
use super::{faults, source};
use crate::report::faults::{Facts, View};
use crate::report::smaps::known::Faults;
use crate::report::smaps::{Footprint, Known, known_rows, report, text};

pub fn run(args: &Smaps) -> Result<ExitCode> {
    let Some(pid) = args.pid() else {
        return of_recording(args, Path::new(&args.what));
    };
    let known = args.with.as_deref().map(known).transpose()?;
    let processes = process::read(pid, args.tree)?;
    let footprint = Footprint::new(&processes, known.as_ref());
    print(
        args.format(),
        &report::COLUMNS,
        |rows| {
            footprint
                .by_section
                .iter()
                .try_for_each(|row| rows.row(&report::cells(row)))
        },
        || &footprint,
        |mut out, footprint| text::write(&mut out, footprint, args.top),
    )
}

fn of_recording(args: &Smaps, input: &Path) -> Result<ExitCode> {
    if args.tree || args.with.is_some() {
        bail!("--tree and --with require a running process: give its id");
    }
    let known = known(input)?;
    print(
        args.format(),
        &known_rows::COLUMNS,
        |rows| {
            known
                .by_process()
                .try_for_each(|row| rows.row(&known_rows::cells(&row)))
        },
        || &known,
        |mut out, known| text::write_known(&mut out, known, args.top),
    )
}

/// Prints the memory that a recording knows of.
fn known(input: &Path) -> Result<Known> {
    let scratch = Scratch::new();
    let mut faults = Faults(Facts::beyond_memory(&scratch.rows()));
    let (tables, kind) = source::read(input, &mut faults)?;
    let Faults(mut facts) = faults;
    facts.is_without_mappings = kind == Kind::Profile;
    if facts.rows.is_empty() {
        let why = faults::why_none(&tables.recording);
        bail!("{} contains no page faults{why}", input.display());
    }
    faults::warn_of_budget(&tables, facts.rows.faults());
    let known = Known::new(&View::new(&tables, &facts));
    scratch.was_whole()?;
    Ok(known)
}
