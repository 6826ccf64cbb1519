//! What is kept of the files that the privileged helper passed on, and what the profile gets.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use symbols::elf::Excerpt;

use super::DEBUG_LIMIT;
use crate::capture::files::open::open_without_links;
use crate::capture::socket::wire::{Mapped, PerfMap};
use crate::plural::counted;
use crate::record::attachments::is_written;
use crate::report::text::bytes;

/// The files that are left at the end.
#[derive(Debug, Default)]
pub struct Kept {
    /// Mapped files: the file, or a copy of the parts that are needed.
    pub mapped: Vec<(Mapped, Option<File>)>,
    /// Perf maps of recorded processes.
    pub perf_maps: Vec<(PerfMap, File)>,
    /// Notes for the profile about what was lost.
    pub notes: Vec<String>,
}

/// A file that the privileged helper passed on.
#[derive(Debug, Clone)]
pub(super) enum What {
    Mapped(Mapped),
    PerfMap(PerfMap),
}

impl What {
    /// The file's process, and its path there.
    pub(super) fn place(&self) -> (u32, &str) {
        match self {
            Self::Mapped(mapped) => (mapped.pid, &mapped.path),
            Self::PerfMap(map) => (map.pid, &map.path),
        }
    }

    /// Whether a program writes to it while the program runs.
    pub(super) fn is_growing(&self) -> bool {
        match self {
            Self::Mapped(mapped) => is_written(Path::new(&mapped.path)),
            Self::PerfMap(_) => true,
        }
    }
}

/// Identifies a file and the state of it that was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// The change time, which only the kernel sets.
    changed: (i64, i64),
}

impl Identity {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// How a file is kept.
#[derive(Debug)]
pub(super) enum Form {
    /// Not at all; the mapping has the reason.
    Nothing,
    /// Open.
    Held(File),
    /// Open, and its program may continue to write.
    Growing(File),
    /// A copy of what was written.
    Written(File),
    /// A copy of the parts that names need.
    Copied(File, Identity, Excerpt),
}

#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) all: Vec<(What, Form)>,
    pub(super) held: usize,
    /// Bytes of all copies, and how many there are.
    pub(super) copied: (u64, usize),
    /// Files that could not be kept: how many, and the first with the reason.
    lost: (u64, String),
}

impl Shelf {
    /// Notes a file that could not be kept, and returns the reason.
    pub(super) fn lose(&mut self, path: &str, error: &io::Error) -> String {
        let why = format!("cannot copy it: {error}");
        self.lost.0 += 1;
        if self.lost.0 == 1 {
            self.lost.1 = format!("{path}, {why}");
        }
        why
    }

    /// Takes everything, in the form that the profile is created from.
    pub(super) fn take(&mut self) -> Kept {
        let mut kept = Kept::default();
        let mut without_lines = Vec::new();
        for (what, form) in std::mem::take(&mut self.all) {
            let file = match form {
                Form::Nothing => None,
                Form::Held(file) | Form::Growing(file) | Form::Written(file) => Some(file),
                Form::Copied(copy, identity, excerpt) => {
                    let (_, path) = what.place();
                    let whole = again(path, identity, excerpt);
                    if whole.is_none() && excerpt.debug_left_out > 0 {
                        without_lines.push((path.to_owned(), excerpt.debug_left_out));
                    }
                    Some(whole.unwrap_or(copy))
                }
            };
            match what {
                What::Mapped(mapped) => kept.mapped.push((mapped, file)),
                What::PerfMap(map) => kept.perf_maps.extend(file.map(|file| (map, file))),
            }
        }
        if self.lost.0 > 0 {
            let (count, first) = &self.lost;
            kept.notes
                .push(format!("{} could not be kept: {first}", counted(*count, "file")));
        }
        if let Some((path, size)) = without_lines.first() {
            kept.notes.push(format!(
                "{} disappeared, with more debug information than is copied ({} per file): functions have names but no lines; the first is {path} ({})",
                counted(without_lines.len() as u64, "file"),
                bytes(DEBUG_LIMIT),
                bytes(*size)
            ));
        }
        kept
    }
}

/// The whole file, if it still exists unchanged since it was copied.
fn again(path: &str, identity: Identity, excerpt: Excerpt) -> Option<File> {
    if !excerpt.is_partial {
        return None;
    }
    let file = symbols::open_patiently(Path::new(path), open_without_links).ok()?;
    (Identity::of(&file).ok()? == identity).then_some(file)
}
