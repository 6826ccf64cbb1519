//! Builds unwind tables while the program runs, on a separate thread, and hands them to the privileged helper.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::stat::{major, minor};
use rustc_hash::FxHashSet;
use symbols::elf::ElfFile;
use symbols::patience::patiently;

use super::binaries::Vdso;
use super::stamp::Stamp;
use super::tables::TableCache;
use crate::capture::files::open::open_regular;
use crate::capture::socket::link::Link;
use crate::capture::socket::wire::{Mapped, Request, TableOf};
use crate::event::{FileId, Segment};
use crate::terminal::print_note;

/// How long the command waits for the tables of the files that it will map: those in the cache take a few
/// milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long the end of a recording waits for tables that it wanted: the next one finds them in the cache.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// A job for the thread.
#[derive(Debug)]
enum Job {
    /// A file that was mapped, and its state before any of it was read.
    Mapped(Mapped, File, Option<Stamp>),
    /// A file that the command will map.
    Expected(PathBuf),
    /// The kernel's own code in every process.
    Vdso,
    /// Report that all earlier jobs are done.
    Notify(Sender<()>),
}

impl Job {
    fn name(&self) -> Option<String> {
        match self {
            Self::Mapped(mapped, ..) => Some(mapped.path.clone()),
            Self::Expected(path) => Some(path.display().to_string()),
            Self::Vdso => Some("[vdso]".to_owned()),
            Self::Notify(_) => None,
        }
    }
}

/// The queue of files. After it is dropped, the thread ends once its current file is done.
#[derive(Debug)]
pub struct TableMaker {
    queue: Sender<Job>,
    jobs: Option<Receiver<Job>>,
    /// False once the privileged helper takes no more tables; locked while one is sent.
    open: Arc<Mutex<bool>>,
    /// The thread's current file.
    at: Arc<Mutex<String>>,
}

/// The sending end of the queue of files.
#[derive(Debug, Clone)]
pub struct Feed(Sender<Job>);

impl Feed {
    /// Queues a mapped file; it, or a copy of what tables are built from, is kept open until its table is done.
    pub fn file(&self, mapped: &Mapped, file: &File, stamp: Option<Stamp>) {
        if let Ok(file) = file.try_clone() {
            let _ = self.0.send(Job::Mapped(mapped.clone(), file, stamp)); // the thread may have ended and need no more
        }
    }
}

impl Default for TableMaker {
    fn default() -> Self {
        let (queue, jobs) = mpsc::channel();
        Self {
            queue,
            jobs: Some(jobs),
            open: Arc::new(Mutex::new(true)),
            at: Arc::default(),
        }
    }
}

impl TableMaker {
    /// Starts the thread: the privileged helper takes tables from now on. Returns when the tables of the `expected` files are
    /// done, or when that takes too long.
    pub fn start(&mut self, link: Arc<Link>, vdso: Vdso, tables: TableCache, expected: Vec<PathBuf>) {
        let Some(jobs) = self.jobs.take() else { return };
        let mut worker = Worker {
            link,
            vdso,
            tables,
            open: self.open.clone(),
            at: self.at.clone(),
            made: FxHashSet::default(),
        };
        let (done, settled) = mpsc::channel();
        let first = expected.into_iter().map(Job::Expected);
        let first: Vec<Job> = [Job::Vdso]
            .into_iter()
            .chain(first)
            .chain([Job::Notify(done)])
            .collect();
        thread::spawn(move || first.into_iter().chain(jobs).for_each(|job| worker.make(job)));
        let _ = settled.recv_timeout(PATIENCE);
    }

    /// The sending end of the queue, for another thread.
    pub fn feed(&self) -> Feed {
        Feed(self.queue.clone())
    }

    /// Stops sending tables: an unread message would break the connection.
    pub fn stop(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Waits until every file queued so far has been read. If that takes too long, prints the file's name.
    pub fn settle_or_warn(&self, limit: Duration) {
        let (done, settled) = mpsc::channel();
        if self.queue.send(Job::Notify(done)).is_ok() && settled.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let at = self.at.lock().unwrap_or_else(PoisonError::into_inner).clone();
            print_note(format_args!(
                "building the unwind table of {at} takes more than {} s; continuing without it",
                limit.as_secs()
            ));
        }
    }

    /// Waits until the remaining tables are in the cache, or until that takes too long: a program that ends before the tables
    /// of its libraries are built would never have them.
    pub fn finish(self) {
        if self.jobs.is_none() {
            self.settle_or_warn(LAST_PATIENCE);
        }
    }
}

/// The state of the thread.
struct Worker {
    link: Arc<Link>,
    vdso: Vdso,
    tables: TableCache,
    open: Arc<Mutex<bool>>,
    at: Arc<Mutex<String>>,
    made: FxHashSet<FileId>,
}

impl Worker {
    fn make(&mut self, job: Job) {
        if let Some(name) = job.name() {
            *self.at.lock().unwrap_or_else(PoisonError::into_inner) = name;
        }
        let (file, name, opened) = match job {
            // Not even its header is read again: a program that starts with cold files must not find them warmed by us.
            Job::Mapped(mapped, ..) if self.made.contains(&mapped.file) => return,
            Job::Mapped(mapped, file, stamp) => (Some(mapped.file), mapped.path, Opened::new(file, stamp)),
            Job::Expected(path) => {
                let Some((id, opened)) = expected(&path) else { return };
                (Some(id), path.to_string_lossy().into_owned(), Some(opened))
            }
            Job::Vdso => (
                None,
                "[vdso]".to_owned(),
                self.vdso.elf().ok().map(Opened::without_file),
            ),
            Job::Notify(done) => {
                let _ = done.send(()); // the receiver may have given up
                return;
            }
        };
        if file.is_some_and(|file| !self.made.insert(file)) {
            return;
        }
        let table = opened.and_then(|Opened { elf, stamp }| {
            let table = self.tables.of(&elf, stamp.as_ref()).ok()?;
            Some((segments(&elf), table))
        });
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !*open {
            return; // the table is in the cache now
        }
        // If the privileged helper is gone, that is reported elsewhere.
        let _ = match (table, file) {
            (Some((segments, table)), file) => {
                let of = TableOf { file, name, segments };
                self.link.send(&Request::Table(of), Some(table.memory.as_fd()))
            }
            (None, Some(file)) => self.link.send(&Request::NoTable(file), None),
            (None, None) => Ok(()),
        };
    }
}

/// A file that a table is built from.
struct Opened {
    elf: ElfFile,
    /// Taken before the file was read.
    stamp: Option<Stamp>,
}

impl Opened {
    fn new(file: File, stamp: Option<Stamp>) -> Option<Self> {
        let elf = ElfFile::open_sparingly(file).ok()?;
        Some(Self { elf, stamp })
    }

    fn without_file(elf: ElfFile) -> Self {
        Self { elf, stamp: None }
    }
}

/// A file with the identity that its mappings will show. (On overlayfs and btrfs they show another device; there the table follows the mapping.)
fn expected(path: &Path) -> Option<(FileId, Opened)> {
    let own = path.to_owned();
    let opened = patiently(path, move |_| {
        let file = open_regular(&own)?;
        Ok((file.metadata()?, Stamp::of(&file), file))
    });
    let (metadata, stamp, file) = opened.ok()?;
    let number = |number: u64| u32::try_from(number).ok();
    let id = FileId {
        major: number(major(metadata.dev()))?,
        minor: number(minor(metadata.dev()))?,
        inode: metadata.ino(),
        generation: 0,
    };
    Some((id, Opened::new(file, stamp)?))
}

/// The executable segments of a file.
pub fn segments(elf: &ElfFile) -> Vec<Segment> {
    let executable = elf.segments().iter().filter(|segment| segment.executable);
    executable
        .map(|segment| Segment {
            offset: segment.file_offset,
            svma: segment.svma,
            file_size: segment.file_size,
        })
        .collect()
}
