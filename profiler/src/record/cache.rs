//! `--cold` and `--warm`: the state of the page cache when the command starts, and a report of how far that worked.
//!
//! In two steps: [`prepare`] does the work before the recording begins; [`Prepared::finish`] runs just before the
//! command is released, and drops what the recorder itself has touched since, which takes a few milliseconds.
//! docs/cold.md explains what is dropped and what can't be.

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
use super::tables::TableCache;
use crate::capture::files::open::open_regular;
use crate::capture::socket::wire::Mapped;
use crate::record::options::{PageCache, Wanted};
use crate::report::repeat::CacheState;
use crate::terminal::{print_note, say};
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
    /// Size in bytes.
    len: u64,
    /// It is mapped when the command starts: the recorder reads it too.
    starts: bool,
    /// Bytes in memory before; `None`: unknown.
    before: Option<u64>,
    /// Bytes in memory afterwards; `None`: unknown.
    after: Option<u64>,
    /// `after` comes from a sample of pages.
    is_sampled: bool,
    unreadable: bool,
    why: Option<Why>,
}

/// Why a file is not in the wanted state.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// Its file system exists only in memory.
    Memory(&'static str),
    /// Processes have it mapped.
    Mapped(Holders),
    /// Not all processes could be checked.
    Hidden,
    /// It is not on disk yet.
    Unwritten,
    /// There is no memory for it.
    NoRoom,
    /// It was read and is no longer in memory.
    Reclaimed,
    /// It can't be read; the text says why.
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

    /// Part of it is in memory.
    fn is_left(&self) -> bool {
        self.after.is_some_and(|after| after > 0)
    }

    /// This many bytes, but at most its size: the last page extends past the end.
    fn within(&self, bytes: u64) -> u64 {
        bytes.min(self.len)
    }
}

/// What is known of the command.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The program, resolved.
    pub program: &'a Path,
    /// The command line, as typed.
    pub command: &'a [OsString],
    /// The files that it maps when it starts.
    pub mapped: &'a [PathBuf],
    /// Its environment.
    pub environment: &'a Environment,
    /// The files that it mapped in earlier recordings.
    pub remembered: Option<&'a Remembered>,
}

/// The page cache, prepared as far as possible.
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
/// When a file that the user named does not exist, or the user pressed Ctrl-C.
pub fn prepare(
    asked: &PageCache,
    subject: Subject<'_>,
    tables: &TableCache,
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
            "folders that can't be read: {count}, the first is {}",
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
    /// Drops what the recorder touched, since it reads no more files of the command, and reports the result to the
    /// user.
    pub fn finish(mut self) -> PreparedFiles {
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
        lines.next().iter().for_each(print_note);
        lines.for_each(say);
        PreparedFiles::new(self.wanted, &self.entries, self.remembered)
    }
}

/// The files that were prepared.
#[derive(Debug)]
pub struct PreparedFiles {
    wanted: Wanted,
    ids: FxHashSet<(u32, u32, u64)>,
    paths: FxHashSet<PathBuf>,
    remembered: Option<Remembered>,
    state: CacheState,
}

impl PreparedFiles {
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

    /// Reports which files the recorded processes mapped that were not prepared, and remembers them.
    pub fn report_missed<'a>(&self, mapped: impl Iterator<Item = &'a Mapped>) {
        if self.wanted == Wanted::ColdSystem {
            return; // that includes every file
        }
        // The command started as one of our processes.
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
        lines.first().iter().for_each(print_note);
        lines.iter().skip(1).for_each(say);
    }
}

/// Compiles the unwind tables now that would be compiled while the command runs, since that reads the files.
fn make_tables(mapped: &[PathBuf], tables: &TableCache, interrupted: &AtomicBool) -> Result<()> {
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut progress = Progress::new("unwinding", report::sum(mapped.iter().map(size)), interrupted);
    for path in mapped {
        progress.advance(size(path))?;
        let Ok(file) = open_regular(path) else { continue };
        let stamp = Stamp::of(&file);
        // A file without a table is reported elsewhere.
        if let Ok(elf) = ElfFile::open(file) {
            let _ = tables.of(&elf, stamp.as_ref());
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
