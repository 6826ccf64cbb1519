//! `ngmi trim`: writes a smaller profile, of a time range or of some processes.

use std::fs::File;
use std::io::{Cursor, Read as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::args::Trim;
use super::source;
use super::span::times;
use crate::addr::{Timestamp, ns};
use crate::fact::reduce::trim::{Cut, trim};
use crate::fact::{FactSink, FactSource as _, Mark, Process, SampleFact, Tables};
use crate::plural::counted;
use crate::profile::ProfileSource;
use crate::record::finish::write_profile;
use crate::record::spool::Output;
use crate::report::select::{Words, fits, glob, id_or_name};
use crate::report::text::bytes as size_words;
use crate::terminal::print_note;

/// Words for processes in errors.
const WORDS: Words = Words {
    subcommand: "waits",
    of: "samples",
};

pub fn run(args: &Trim) -> Result<ExitCode> {
    let (from, to) = times(args.from.as_deref(), args.to.as_deref())?;
    if from.is_none() && to.is_none() && args.processes.is_empty() {
        bail!("nothing to trim: select what to keep with --from, --to (seconds) or --process");
    }
    let mut output = Output::create(&args.output)?;
    let mut source = read(&args.profile)?;
    let tables = source.replay(&mut Nothing)?;
    let start = tables.recording.start;
    if from.is_some_and(|from| start.0.saturating_add(ns(from)) >= tables.recording.end.0) {
        let seconds = tables.recording.end.since(start).as_secs_f64();
        bail!("--from is after the end of the recording, which is {seconds:.3} s long");
    }
    // A browser's processes differ in the names of their main threads.
    let is_process = |process: &Process, pattern: &str| {
        let main = process.main_thread.and_then(|main| tables.threads.get(main.index()));
        id_or_name(process.pid, &process.name, pattern) || main.is_some_and(|main| glob(pattern, &main.name))
    };
    let wanted = ("process", "process");
    let processes = fits(WORDS, &args.processes, &tables.processes, wanted, is_process)?;
    let after = |time| Timestamp(start.0.saturating_add(ns(time)));
    let cut = Cut {
        from: from.map(after),
        to: to.map(after),
        processes,
    };
    let (tables, collected) = trim(&mut source, &cut)?;
    drop(source);
    write_profile(&mut output, &tables, &collected)?;
    // Before the end: the output may replace it.
    let before = std::fs::metadata(&args.profile).map_or(0, |file| file.len());
    let bytes = output.finish()?;
    print_note(format_args!(
        "{}: {}, {}, {}; {} instead of {}",
        args.output.display(),
        counted(tables.processes.len() as u64, "process"),
        counted(tables.threads.len() as u64, "thread"),
        counted(tables.recording.samples_seen, "sample"),
        size_words(bytes),
        size_words(before)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Opens a profile that ngmi wrote.
pub fn read(profile: &Path) -> Result<ProfileSource> {
    let shown = profile.display();
    let mut file = File::open(profile)
        .with_context(|| format!("cannot read {shown}; name the profile that `ngmi record` wrote"))?;
    let start = source::start_of(&mut file).with_context(|| format!("cannot read {shown}"))?;
    source::expect_profile(profile, &start)?;
    ProfileSource::new(Cursor::new(start).chain(file)).with_context(|| format!("cannot read {shown}"))
}

/// A sink that ignores all facts: only the tables are needed.
struct Nothing;

impl FactSink for Nothing {
    fn sample(&mut self, _: &Tables, _: &SampleFact) {}
    fn mark(&mut self, _: &Tables, _: &Mark) {}
}
