//! `--cold` and `--warm`: how the page cache is when the command starts, and the truth about how far that worked.
//!
//! Twice: [`prepare`] does the work before the recording begins; [`Prepared::finish`] follows just before the command is let go, and
//! drops what the recorder itself has touched since, which takes a few milliseconds. docs/cold.md tells what is dropped and what can't be.

pub mod evict;
mod holders;
mod listing;
mod progress;
pub mod remembered;
mod report;
pub mod system;
mod warm;

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use rustc_hash::FxHashSet;
use symbols::elf::ElfFile;

use super::identity::Environment;
use super::stamp::Stamp;
use super::tables::Tables;
use crate::capture::files::open_regular;
use crate::capture::wire::Mapped;
use crate::cli::options::{PageCache, Wanted};
use crate::cli::terminal::{say, tell};
use crate::report::repeat::CacheState;
use holders::Holders;
use progress::Progress;
use remembered::Remembered;
use report::Report;
use system::Dropper;

/// A file that the command will use.
#[derive(Debug, Clone)]
pub struct Entry {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
    /// Bytes.
    len: u64,
    /// It is mapped when the command starts: the recorder reads it too.
    starts: bool,
    /// Bytes in memory before; `None`: unknown.
    before: Option<u64>,
    /// Bytes in memory afterwards; `None`: unknown.
    after: Option<u64>,
    /// `after` is of some pages only.
    is_sampled: bool,
    unreadable: bool,
    why: Option<Why>,
}

/// Why a file is not as it was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// Its file system, which is nowhere else.
    Memory(&'static str),
    /// Processes have it mapped.
    Mapped(Holders),
    /// Not all processes could be asked.
    Hidden,
    /// It is not on disk yet.
    Unwritten,
    /// There is no memory for it.
    NoRoom,
    /// It was read and is not there any more.
    Reclaimed,
    /// It can't be read, in words.
    Failed(String),
}

impl Entry {
    fn new(path: &Path, metadata: &Metadata, starts: bool) -> Self {
        Self {
            path: path.to_owned(),
            id: (metadata.dev(), metadata.ino()),
            len: metadata.len(),
            starts,
            before: None,
            after: None,
            is_sampled: false,
            unreadable: false,
            why: None,
        }
    }

    /// Some of it is in memory.
    fn is_left(&self) -> bool {
        self.after.is_some_and(|after| after > 0)
    }

    /// The last page is not all the file's.
    fn within(&self, bytes: u64) -> u64 {
        bytes.min(self.len)
    }
}

/// What is known of the command.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The program, resolved.
    pub program: &'a Path,
    /// It and its arguments, as typed.
    pub command: &'a [OsString],
    /// What it maps when it starts.
    pub mapped: &'a [PathBuf],
    /// Its environment.
    pub environment: &'a Environment,
    /// What it mapped before.
    pub remembered: Option<&'a Remembered>,
}

/// The page cache, nearly as it was wanted.
#[derive(Debug)]
pub struct Prepared {
    wanted: Wanted,
    entries: Vec<Entry>,
    notes: Vec<String>,
    remembered: Option<Remembered>,
    dropper: Option<Dropper>,
}

/// Drops or reads the command's files.
///
/// # Errors
/// When a file that the person named does not exist, or the person pressed Ctrl-C.
pub fn prepare(
    asked: &PageCache,
    subject: Subject<'_>,
    tables: &Tables,
    dropper: Option<Dropper>,
    interrupted: &AtomicBool,
) -> Result<Prepared> {
    let listing = listing::list(listing::Sources {
        program: subject.program,
        mapped: subject.mapped,
        command: subject.command,
        also: &asked.also,
        environment: subject.environment,
    })?;
    let (mut entries, mut notes) = (listing.entries, listing.notes);
    if let Some(folder) = listing.unreadable.first() {
        let count = listing.unreadable.len();
        notes.push(format!(
            "folders that can't be read: {count}, {} the first",
            report::shown(folder)
        ));
    }
    let total = report::sum(entries.iter().map(|entry| entry.len));
    if asked.wanted == Wanted::Warm {
        warm::warm(&mut entries, &mut Progress::new("reading", total, interrupted))?;
    } else {
        make_tables(subject.mapped, tables, interrupted)?;
        evict::evict(&mut entries, &mut Progress::new("evicting", total, interrupted))?;
    }
    Ok(Prepared {
        wanted: asked.wanted,
        entries,
        notes,
        remembered: subject.remembered.cloned(),
        dropper,
    })
}

impl Prepared {
    /// The recorder reads no file of the command any more: drops what it touched, and tells the person how it is now.
    pub fn finish(mut self) -> Known {
        if self.wanted != Wanted::Warm {
            evict::evict_again(&mut self.entries);
        }
        let dropped = self
            .dropper
            .map(|dropper| dropper.drop_now().map_err(|error| format!("{error:#}")));
        let report = Report {
            wanted: self.wanted,
            entries: &self.entries,
            notes: &self.notes,
            dropped,
        };
        let mut lines = report.lines().into_iter();
        lines.next().iter().for_each(tell);
        lines.for_each(say);
        Known::new(self.wanted, &self.entries, self.remembered)
    }
}

/// The files that were thought of.
#[derive(Debug)]
pub struct Known {
    wanted: Wanted,
    ids: FxHashSet<(u32, u32, u64)>,
    paths: FxHashSet<PathBuf>,
    remembered: Option<Remembered>,
    state: CacheState,
}

impl Known {
    /// How cold or warm the files were when the command started.
    pub fn state(&self) -> CacheState {
        self.state
    }

    fn new(wanted: Wanted, entries: &[Entry], remembered: Option<Remembered>) -> Self {
        let id = |entry: &Entry| (libc::major(entry.id.0), libc::minor(entry.id.0), entry.id.1);
        Self {
            wanted,
            state: report::state(wanted, entries),
            ids: entries.iter().map(id).collect(),
            // On overlayfs and btrfs mappings show another device.
            remembered,
            paths: entries
                .iter()
                .filter_map(|entry| entry.path.canonicalize().ok())
                .collect(),
        }
    }

    /// Tells the person which files the recorded processes mapped that nobody had thought of, and remembers them.
    pub fn tell_missed<'a>(&self, mapped: impl Iterator<Item = &'a Mapped>) {
        if self.wanted == Wanted::ColdSystem {
            return; // that was everything
        }
        // The command was born as a process of ours.
        let ours = holders::files_of(std::process::id());
        let mut missed: Vec<&Path> = mapped
            .map(|mapped| {
                (
                    (mapped.file.major, mapped.file.minor, mapped.file.inode),
                    Path::new(&mapped.path),
                )
            })
            .filter(|(id, path)| !self.ids.contains(id) && !ours.iter().any(|(our, named)| our == id || named == path))
            .map(|(_, path)| path)
            .filter(|path| path.is_absolute() && !self.paths.contains(*path) && path.is_file())
            .collect();
        missed.sort_unstable();
        missed.dedup();
        if missed.is_empty() {
            return;
        }
        let is_kept = self.remembered.as_ref().is_some_and(|list| list.add(&missed).is_ok());
        let lines = report::missed(&missed, self.wanted == Wanted::Warm, is_kept);
        lines.first().iter().for_each(tell);
        lines.iter().skip(1).for_each(say);
    }
}

/// Makes the unwind tables now that would be made while the command runs: that reads the files.
fn make_tables(mapped: &[PathBuf], tables: &Tables, interrupted: &AtomicBool) -> Result<()> {
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut progress = Progress::new("unwinding", report::sum(mapped.iter().map(size)), interrupted);
    for path in mapped {
        progress.advance(size(path))?;
        let Ok(file) = open_regular(path) else { continue };
        let stamp = Stamp::of(&file);
        // One that has no table is reported elsewhere.
        if let Ok(elf) = ElfFile::open(file) {
            let _ = tables.of(&elf, stamp.as_ref());
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
