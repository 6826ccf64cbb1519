//! Keeps what the profile needs of mapped files, without keeping file systems busy or the space of deleted files occupied.
//!
//! A file is held open only on a mount that the recorder keeps busy anyway, and only while it has a name. Of any other file, the parts that unwinding and
//! naming need are copied at once, into an unnamed file in our own folder. Files that programs write about themselves grow, and are held while the
//! program runs.

mod shelf;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use shelf::Kept;
use shelf::{Form, Identity, Shelf, What};
use symbols::elf::{Limits, excerpt};
use symbols::patience::patiently;

use super::anchors::Anchors;
use super::attachments;
use super::stamp::Stamp;
use super::table_maker::Feed;
use crate::capture::proc::open_files;
use crate::capture::socket::wire::{Mapped, PerfMap};
use crate::report::text::bytes;

/// How often to check whether files still have names and programs still run.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long the end of a recording waits for files that are still being copied.
const LAST_PATIENCE: Duration = Duration::from_mins(1);
/// Maximum number of held files.
const HELD_LIMIT: usize = 2048;
/// Maximum number of copies, each of which is an open file.
const COPIES_LIMIT: usize = 4096;
/// Maximum bytes of all copies.
const BYTES_LIMIT: u64 = 1 << 30;
/// Maximum bytes of one copy.
const FILE_LIMIT: u64 = 256 << 20;
/// Maximum bytes of debug information that are copied of one file.
const DEBUG_LIMIT: u64 = 32 << 20;

enum Job {
    Keep(What, Option<File>),
    Finish(Sender<()>),
}

/// The thread's queue.
#[derive(Debug)]
pub struct Keeper {
    queue: Sender<Job>,
    shelf: Arc<Mutex<Shelf>>,
}

impl Keeper {
    /// Starts the thread. Copies go to `folder`; `tables` gets each file from which unwind tables can be built.
    pub fn start(anchors: Anchors, folder: Option<PathBuf>, tables: Feed) -> Self {
        let (queue, jobs) = mpsc::channel();
        let shelf = Arc::<Mutex<Shelf>>::default();
        let worker = Worker {
            anchors,
            folder,
            tables,
            shelf: shelf.clone(),
        };
        thread::spawn(move || worker.run(&jobs));
        Self { queue, shelf }
    }

    /// Queues a file that was mapped.
    pub fn mapped(&self, mapped: Mapped, file: Option<File>) {
        let _ = self.queue.send(Job::Keep(What::Mapped(mapped), file)); // the thread ends with the queue
    }

    /// Queues a file to which a program writes names of its code.
    pub fn perf_map(&self, map: PerfMap, file: File) {
        let _ = self.queue.send(Job::Keep(What::PerfMap(map), Some(file))); // as above
    }

    /// Waits until everything queued so far is kept, and returns it.
    pub fn finish(self) -> Kept {
        let (notify, done) = mpsc::channel();
        if self.queue.send(Job::Finish(notify)).is_ok() {
            let _ = done.recv_timeout(LAST_PATIENCE); // a file system that does not answer costs its own files
        }
        lock(&self.shelf).take()
    }
}

fn lock(shelf: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Worker {
    anchors: Anchors,
    folder: Option<PathBuf>,
    tables: Feed,
    shelf: Arc<Mutex<Shelf>>,
}

impl Worker {
    fn run(&self, jobs: &Receiver<Job>) {
        let mut looked = Instant::now();
        loop {
            match jobs.recv_timeout(INTERVAL.saturating_sub(looked.elapsed())) {
                Ok(Job::Keep(what, file)) => self.keep(what, file),
                Ok(Job::Finish(done)) => {
                    let _ = done.send(()); // the caller may have stopped waiting
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if looked.elapsed() >= INTERVAL {
                self.let_go();
                looked = Instant::now();
            }
        }
    }

    fn keep(&self, mut what: What, file: Option<File>) {
        let form = match file {
            None => Form::Nothing,
            Some(file) if what.is_growing() => Form::Growing(file),
            Some(file) => {
                let (form, stamp) = if self.may_hold(&file) {
                    lock(&self.shelf).held += 1;
                    let stamp = Stamp::of(&file);
                    (Form::Held(file), stamp)
                } else {
                    self.copied(&mut what, file)
                };
                if let (What::Mapped(mapped), Form::Held(file) | Form::Copied(file, ..)) = (&what, &form) {
                    self.tables.file(mapped, file, stamp);
                }
                form
            }
        };
        lock(&self.shelf).all.push((what, form));
    }

    fn may_hold(&self, file: &File) -> bool {
        self.anchors.hold(file) && has_name(file) && lock(&self.shelf).held < HELD_LIMIT
    }

    /// Copies a file, and closes it. Also returns its stamp from before it was read.
    fn copied(&self, what: &mut What, file: File) -> (Form, Option<Stamp>) {
        let (_, path) = what.place();
        match self.copy(path, file) {
            Ok(copied) => copied,
            Err(error) => {
                let why = lock(&self.shelf).lose(path, &error);
                if let What::Mapped(mapped) = what {
                    mapped.problem = Some(why);
                }
                (Form::Nothing, None)
            }
        }
    }

    fn copy(&self, path: &str, file: File) -> io::Result<(Form, Option<Stamp>)> {
        let (taken, count) = lock(&self.shelf).copied;
        let room = BYTES_LIMIT.saturating_sub(taken).min(FILE_LIMIT);
        if count >= COPIES_LIMIT || room == 0 {
            let limits = format!("at most {COPIES_LIMIT} files and {} are copied", bytes(BYTES_LIMIT));
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, limits));
        }
        let copy = self.unnamed()?;
        let to = copy.try_clone()?;
        let copied = patiently(Path::new(path), move |progress| {
            let (identity, stamp) = (Identity::of(&file)?, Stamp::of(&file));
            let limits = Limits {
                bytes: room,
                debug: DEBUG_LIMIT.min(room / 2),
                // Reading a deleted file warms nothing that another program uses.
                code: !has_name(&file),
            };
            Ok((identity, stamp, excerpt(&file, &to, limits, progress)?))
        });
        let (identity, stamp, excerpt) = copied?;
        lock(&self.shelf).copied = (taken + excerpt.bytes, count + 1);
        Ok((Form::Copied(copy, identity, excerpt), stamp))
    }

    fn unnamed(&self) -> io::Result<File> {
        let folder = self
            .folder
            .as_deref()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let file = tempfile::tempfile_in(folder)?;
        if open_files::is_of_the_last(&file) {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, open_files::remedy()));
        }
        Ok(file)
    }

    /// Closes files that have lost their names, and those of programs that ended, after copying them. Not under the lock: a file system may not answer.
    fn let_go(&self) {
        for (index, mut what, form) in self.leaving() {
            let form = match form {
                Form::Held(file) => {
                    lock(&self.shelf).held -= 1;
                    self.copied(&mut what, file).0
                }
                Form::Growing(file) => self.written(what.place().1, file).map_or(Form::Nothing, Form::Written),
                other => other,
            };
            if let Some(place) = lock(&self.shelf).all.get_mut(index) {
                *place = (what, form);
            }
        }
    }

    /// Takes the files that must be copied now.
    fn leaving(&self) -> Vec<(usize, What, Form)> {
        let mut locked = lock(&self.shelf);
        let all = locked.all.iter_mut().enumerate();
        let leaving = all.filter_map(|(index, (what, form))| {
            let is_due = match form {
                Form::Held(file) => !has_name(file),
                Form::Growing(file) => has_ended(what.place().0) && !(has_name(file) && self.anchors.hold(file)),
                Form::Nothing | Form::Written(_) | Form::Copied(..) => false,
            };
            is_due.then(|| (index, what.clone(), std::mem::replace(form, Form::Nothing)))
        });
        leaving.collect()
    }

    /// Copies what a program wrote.
    fn written(&self, path: &str, file: File) -> Option<File> {
        let copied = self
            .unnamed()
            .and_then(|to| patiently(Path::new(path), move |_| attachments::copy(&file, to)));
        copied
            .inspect_err(|error| drop(lock(&self.shelf).lose(path, error)))
            .ok()
    }
}

fn has_name(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

fn has_ended(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
