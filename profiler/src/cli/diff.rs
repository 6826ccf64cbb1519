//! `ngmi diff`: compares two recordings, or two sets of them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::Diff as Args;
use super::output::{must_differ, print_json, print_styled};
use super::runs::{self, Wanted};
use super::source;
use crate::profile::{Difference, Weights, gzip};
use crate::record::spool::Output;
use crate::report::diff::{Diff, text};
use crate::terminal::print_note;

pub fn run(args: &Args) -> Result<ExitCode> {
    let (before, after) = sides(args)?;
    let whole = Wanted::whole();
    let (a, b) = (runs::read(before, &whole)?, runs::read(after, &whole)?);
    let diff = Diff::new(&a, &b);
    if let Some(profile) = &args.profile {
        write_profile(profile, before, after)?;
    }
    if args.json {
        return print_json(&diff);
    }
    let (a, b) = (name(before), name(after));
    print_styled(|mut out| text::write(&mut out, &diff, (&a, &b), args.top))
}

/// The two sets of inputs to compare: before and after.
fn sides(args: &Args) -> Result<(&[PathBuf], &[PathBuf])> {
    if !args.to.is_empty() {
        return Ok((&args.inputs, &args.to));
    }
    match args.inputs.as_slice() {
        [_, _] => Ok(args.inputs.split_at(1)),
        [one] => bail!("nothing to compare {} with; name a second recording", one.display()),
        more => bail!(
            "{} recordings: put `--to` between those before and those after",
            more.len()
        ),
    }
}

fn name(inputs: &[PathBuf]) -> String {
    let more = inputs.len().saturating_sub(1);
    let first = inputs
        .first()
        .map_or_else(String::new, |first| first.display().to_string());
    if more == 0 {
        first
    } else {
        format!("{first} and {more} more")
    }
}

/// Writes the difference as a profile: the average of `after` minus the average of `before`.
fn write_profile(path: &Path, before: &[PathBuf], after: &[PathBuf]) -> Result<()> {
    let place = || format!("cannot write {}", path.display());
    let sides = [(runs::files(before)?, -1.0), (runs::files(after)?, 1.0)];
    let inputs = sides.iter().flat_map(|(files, _)| files);
    inputs.into_iter().try_for_each(|input| must_differ(path, input))?;
    let mut output = Output::create(path)?;
    let mut difference = Difference::default();
    for (files, sign) in &sides {
        for file in files {
            let mut weights = Weights::default();
            let (tables, _) = source::read_any(file, &mut weights)?;
            difference.add(&tables, &weights, sign / files.len() as f64);
        }
    }
    let title = format!("{} minus {}", name(after), name(before));
    gzip::gzip(output.file(), gzip::OF_PROFILES, |out| {
        Ok(difference.write(&title, out)?)
    })
    .with_context(place)?;
    output.finish()?;
    print_note(format_args!(
        "{}: open it with `ngmi load`; decreases have a negative weight",
        path.display()
    ));
    Ok(())
}
