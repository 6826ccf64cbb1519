//! Reads a profile or an event log, distinguished by the start of the file, as facts with names.
//! All unnamed code in anonymous memory is one frame.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use profiler_common::Loss;

use crate::capture::proc::memory::keep_no_large_pieces;
use crate::event::format::FILE_MAGIC;
use crate::event::read::LogReader;
use crate::fact::replay::log::LogSource;
use crate::fact::{FactSink, FactSource, Recording, Tables};
use crate::plural;
use crate::profile::{ForeignSource, ProfileSource, ReadError, gzip};
use crate::record::binaries::{OpenBinaries, Vdso};
use crate::record::servers::NameServers;
use crate::record::{gecko, names};
use crate::terminal::print_note;

/// The kind of an input file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An event log, with everything that was recorded.
    Log,
    /// A profile, which has a budget and no mappings.
    Profile,
    /// A profile from another program, with CPU samples only; contains the program's name.
    Foreign(String),
}

/// Passes the facts of the file to `sink`, and reports a damaged event log.
///
/// # Errors
/// The file can't be read, or is neither.
pub fn read(path: &Path, sink: &mut dyn FactSink) -> Result<(Tables, Kind)> {
    let (tables, kind) = facts_of(path, sink)?;
    note_damage(path, &tables.recording);
    Ok((tables, kind))
}

/// Reports that events are missing because the event log, of which the profile may be, was damaged.
pub fn note_damage(path: &Path, recording: &Recording) {
    if let Some(chunks) = recording.lost(Loss::LogDamaged) {
        print_note(format_args!(
            "{}: the event log is damaged or cut off ({}): events are missing",
            path.display(),
            plural::loss(Loss::LogDamaged.name(), chunks)
        ));
    }
}

fn facts_of(path: &Path, sink: &mut dyn FactSink) -> Result<(Tables, Kind)> {
    let name = path.display();
    let mut file = File::open(path)
        .with_context(|| format!("cannot read {name}; name a profile or an event log that `ngmi record` wrote"))?;
    let start = start_of(&mut file).with_context(|| format!("cannot read {name}"))?;
    if start.starts_with(&FILE_MAGIC) {
        file.seek(SeekFrom::Start(0))
            .with_context(|| format!("{name} is an event log, which must be a regular file"))?;
        let tables = log(file, sink).with_context(|| format!("cannot read {name}"))?;
        return Ok((tables, Kind::Log));
    }
    if !may_be_profile(&start) {
        bail!("{name} is neither a profile nor an event log; name a file that `ngmi record` wrote (-o, --keep-events)");
    }
    let tables = profile(Cursor::new(start).chain(file), sink).with_context(|| format!("cannot read {name}"))?;
    Ok((tables, Kind::Profile))
}

/// The bytes by which an event log and a profile are distinguished.
///
/// # Errors
/// The file can't be read.
pub fn start_of(file: impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.take(FILE_MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// Refuses a file with this start that can't be a profile.
///
/// # Errors
/// It is an event log, or neither compressed nor JSON.
pub fn expect_profile(path: &Path, start: &[u8]) -> Result<()> {
    let name = path.display();
    if start.starts_with(&FILE_MAGIC) {
        bail!("{name} is an event log; convert it first: `ngmi convert {name}`");
    }
    if !may_be_profile(start) {
        bail!("{name} is not a profile; name a file that `ngmi record` wrote");
    }
    Ok(())
}

/// Refuses a profile that is cut, by its contents: a page would only say that it can't open it.
///
/// # Errors
/// It is cut, damaged, or can't be read.
pub fn expect_whole(path: &Path, input: impl Read) -> Result<()> {
    profile::expect_whole(input).with_context(|| format!("cannot read {}: it is damaged or incomplete", path.display()))
}

/// Whether a file with this start may be a profile: compressed, or JSON.
fn may_be_profile(start: &[u8]) -> bool {
    start.starts_with(&gzip::MAGIC) || start.trim_ascii_start().starts_with(b"{")
}

/// Passes the facts of a profile to `sink`, with all unnamed code as one function.
///
/// # Errors
/// The profile can't be read.
pub fn profile(file: impl Read, sink: &mut dyn FactSink) -> Result<Tables> {
    let mut source = ProfileSource::new(file)?;
    source.merge_anonymous();
    source.replay(sink)
}

/// Like [`read`], and also accepts profiles from other programs, of which it passes the CPU
/// samples. It does not report damage.
///
/// # Errors
/// As [`read`].
pub fn read_any(path: &Path, sink: &mut dyn FactSink) -> Result<(Tables, Kind)> {
    match facts_of(path, sink) {
        Err(error) if matches!(error.downcast_ref(), Some(ReadError::Foreign)) => {
            let name = path.display();
            let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
            let mut source = ForeignSource::new(file).with_context(|| format!("cannot read {name}"))?;
            let tables = source.replay(sink)?;
            Ok((tables, Kind::Foreign(source.made_by().to_owned())))
        }
        other => other,
    }
}

fn log(file: File, sink: &mut dyn FactSink) -> Result<Tables> {
    keep_no_large_pieces();
    let reader = LogReader::new(file)?;
    let binaries = OpenBinaries::new(Vec::new(), Vdso::of_this_kernel());
    // Drawn only on a terminal, and only after a moment.
    let bar = ProgressBar::new(reader.len_bytes());
    if let Ok(style) = ProgressStyle::with_template("{msg:>10} [{bar:40}] {bytes}/{total_bytes}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let bar = bar.with_message("reading");
    let mut source = LogSource::new(reader, &binaries);
    source.on_progress(|bytes| bar.set_position(bytes));
    source.merge_anonymous();
    let mut tables = gecko::replay(&mut source, sink)?;
    bar.finish_and_clear();
    if !source.is_complete() {
        let servers = NameServers::from_env().config(None);
        names::resolve(&mut tables, (source.files(), &binaries), servers, &|_, _| {});
    }
    Ok(tables)
}
