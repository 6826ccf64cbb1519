//! `ngmi lint`: checks a profile as strictly as the front end requires.

use crate::plural::counted;
use std::fs::File;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::Lint;
use crate::terminal::{plain, print_note, say};

pub fn run(args: &Lint) -> Result<ExitCode> {
    let file = File::open(&args.profile).with_context(|| format!("cannot read {}", args.profile.display()))?;
    let faults = profile::lint(file);
    for fault in &faults {
        say(plain(fault));
    }
    if faults.is_empty() {
        print_note(format_args!("{}: no problems found", args.profile.display()));
        return Ok(ExitCode::SUCCESS);
    }
    print_note(format_args!(
        "{}: {}",
        args.profile.display(),
        counted(faults.len() as u64, "problem")
    ));
    Ok(ExitCode::FAILURE)
}
