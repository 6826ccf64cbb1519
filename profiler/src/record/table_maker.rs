//! Makes unwind tables while the program runs, on a thread of its own, and hands them to the capture half.

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
use super::tables::Tables;
use crate::capture::files::open_regular;
use crate::capture::link::Link;
use crate::capture::wire::{Mapped, Request, TableOf};
use crate::cli::terminal::tell;
use crate::event::{FileId, Segment};

/// How long the command waits for the tables of the files that it is going to map: those that the cache has take a few
/// milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long the end of a recording may take for tables that it wanted: the next one finds them in the cache.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// What the thread does next.
#[derive(Debug)]
enum Job {
    /// A file that was mapped, and its state before anything of it was read.
    Mapped(Mapped, File, Option<Stamp>),
    /// A file that the command is going to map.
    Expected(PathBuf),
    /// The kernel's own code in every process.
    Vdso,
    /// Tell that everything before is done.
    Tell(Sender<()>),
}

impl Job {
    fn name(&self) -> Option<String> {
        match self {
            Self::Mapped(mapped, ..) => Some(mapped.path.clone()),
            Self::Expected(path) => Some(path.display().to_string()),
            Self::Vdso => Some("[vdso]".to_owned()),
            Self::Tell(_) => None,
        }
    }
}

/// The queue of files. Dropping it lets the thread end after the file that it is at.
#[derive(Debug)]
pub struct TableMaker {
    queue: Sender<Job>,
    jobs: Option<Receiver<Job>>,
    /// False once the capture half takes no more; held while a table is sent.
    open: Arc<Mutex<bool>>,
    /// The file that the thread is at.
    at: Arc<Mutex<String>>,
}

/// Where the queue of files begins.
#[derive(Debug, Clone)]
pub struct Feed(Sender<Job>);

impl Feed {
    /// A file was mapped; it, or a copy of what tables are made of, is kept open until its table is there.
    pub fn file(&self, mapped: &Mapped, file: &File, stamp: Option<Stamp>) {
        if let Ok(file) = file.try_clone() {
            let _ = self.0.send(Job::Mapped(mapped.clone(), file, stamp)); // after the thread's end nobody needs it
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
    /// Begins to work: the capture half takes tables from now on. Returns when the tables of the `expected` files are there, or
    /// when that takes too long.
    pub fn start(&mut self, link: Arc<Link>, vdso: Vdso, tables: Tables, expected: Vec<PathBuf>) {
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
        let first: Vec<Job> = [Job::Vdso].into_iter().chain(first).chain([Job::Tell(done)]).collect();
        thread::spawn(move || first.into_iter().chain(jobs).for_each(|job| worker.make(job)));
        let _ = settled.recv_timeout(PATIENCE);
    }

    /// For another thread.
    pub fn feed(&self) -> Feed {
        Feed(self.queue.clone())
    }

    /// Sends nothing from now on: a message that nobody reads would break the connection.
    pub fn stop(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Waits until every file that was named so far has been read, or until that takes too long: then it names the file that does.
    pub fn settle_or_tell(&self, limit: Duration) {
        let (done, settled) = mpsc::channel();
        if self.queue.send(Job::Tell(done)).is_ok() && settled.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let at = self.at.lock().unwrap_or_else(PoisonError::into_inner).clone();
            tell(format_args!(
                "the unwind table of {at} takes more than {} s, which is not waited for",
                limit.as_secs()
            ));
        }
    }

    /// Waits until the tables that are still wanted are in the cache, or until that takes too long: a program that ends before
    /// the tables of its libraries are made would never have them.
    pub fn finish(self) {
        if self.jobs.is_none() {
            self.settle_or_tell(LAST_PATIENCE);
        }
    }
}

/// The thread.
struct Worker {
    link: Arc<Link>,
    vdso: Vdso,
    tables: Tables,
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
            // Not even its header is read again: a program whose files are cold is not to find them warmed by us.
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
            Job::Tell(done) => {
                let _ = done.send(()); // who asked may have lost patience
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
            return; // it is in the cache now
        }
        // If the capture half is gone, that is told elsewhere.
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

/// A file that a table is made of.
struct Opened {
    elf: ElfFile,
    /// Of the time before it was read.
    stamp: Option<Stamp>,
}

impl Opened {
    fn new(file: File, stamp: Option<Stamp>) -> Option<Self> {
        let elf = ElfFile::open(file).ok()?;
        Some(Self { elf, stamp })
    }

    fn without_file(elf: ElfFile) -> Self {
        Self { elf, stamp: None }
    }
}

/// A file as its mappings will show it. (On overlayfs and btrfs they show another device; there the table comes with the mapping.)
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
