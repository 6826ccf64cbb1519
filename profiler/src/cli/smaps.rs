//! `ngmi smaps`: prints the memory of a process by file and section, or the memory that a recording
//! knows of.

mod process;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::Smaps;
use super::output::to_stdout;
use super::scratch::Scratch;
use super::source::Kind;
use super::{faults, source};
use crate::report::export::{self, Cell, Form, Rows};
use crate::report::faults::{Facts, View};
use crate::report::smaps::known::Faults;
use crate::report::smaps::report::COLUMNS;
use crate::report::smaps::{Footprint, Known, text};

/// Columns of a recording's memory: one row per process, file and section.
const KNOWN_COLUMNS: [&str; 8] = [
    "pid",
    "process",
    "file",
    "section",
    "touched_bytes",
    "written_bytes",
    "touched_by",
    "touched_by_bytes",
];

pub fn run(args: &Smaps) -> Result<ExitCode> {
    let Some(pid) = args.pid() else {
        return of_recording(args, Path::new(&args.what));
    };
    let known = args.with.as_deref().map(known).transpose()?;
    let processes = process::read(pid, args.tree)?;
    let footprint = Footprint::new(&processes, known.as_ref());
    if args.csv {
        return to_stdout(&mut io::stdout().lock(), |out| {
            let mut rows = Rows::begin(out, Form::Csv, &COLUMNS)?;
            footprint.by_section.iter().try_for_each(|row| rows.row(&row.cells()))
        });
    }
    if args.json {
        return to_stdout(&mut io::stdout().lock(), |out| export::json(out, &footprint));
    }
    to_stdout(&mut anstream::stdout(), |out| text::write(out, &footprint, args.top))
}

fn of_recording(args: &Smaps, input: &Path) -> Result<ExitCode> {
    if args.tree || args.with.is_some() {
        bail!("--tree and --with require a running process: give its id");
    }
    let known = known(input)?;
    if args.csv {
        return to_stdout(&mut io::stdout().lock(), |out| {
            let mut rows = Rows::begin(out, Form::Csv, &KNOWN_COLUMNS)?;
            known.by_process().try_for_each(|row| {
                let first = row.functions.first();
                rows.row(&[
                    Cell::number(row.pid),
                    Cell::text(row.process.as_deref()),
                    Cell::text(Some(&row.file)),
                    Cell::text(row.section.as_deref()),
                    Cell::Number(row.touched_bytes),
                    Cell::Number(row.written_bytes),
                    Cell::text(first.and_then(|first| first.function)),
                    Cell::number(first.map(|first| first.bytes)),
                ])
            })
        });
    }
    if args.json {
        return to_stdout(&mut io::stdout().lock(), |out| export::json(out, &known));
    }
    to_stdout(&mut anstream::stdout(), |out| text::write_known(out, &known, args.top))
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
    faults::warn_of_budget(&tables, facts.rows.len() as u64);
    let known = Known::new(&View::new(&tables, &facts));
    scratch.was_whole()?;
    Ok(known)
}
