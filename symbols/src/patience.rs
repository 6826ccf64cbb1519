//! Opens files on file systems that may never respond: a program can run one itself (FUSE), and
//! stop it. A slow operation is left to a separate thread, and its file is skipped. Such files are
//! never mapped: they are copied first.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::statfs::{FsType, fstatfs};

use crate::scratch;

/// Magic numbers from `linux/magic.h`.
const FUSE_SUPER_MAGIC: FsType = FsType(0x6573_5546);
/// Length of one waiting step. A process that was stopped meanwhile has lost one of them.
const STEP: Duration = Duration::from_millis(500);
/// Number of steps without a response after which a file is skipped.
const STEPS: u32 = 20;
/// Total number of steps for all files of a process: after that, each file has two.
const STEPS_OF_ALL: u32 = 60;
/// Bytes read between two progress signals.
const PIECE: usize = 1 << 20;
/// Larger files are not copied.
const MAX_COPY: u64 = 2 << 30;
/// Maximum number of skipped files that are reported.
const NAMED: usize = 16;

/// Files that did not respond.
static LEFT_OUT: Mutex<LeftOut> = Mutex::new(LeftOut {
    steps: 0,
    files: Vec::new(),
});

struct LeftOut {
    steps: u32,
    files: Vec<PathBuf>,
}

impl LeftOut {
    fn add(&mut self, path: PathBuf) {
        if self.files.len() < NAMED && !self.files.contains(&path) {
            self.files.push(path);
        }
    }
}

/// Signals that a file still responds.
pub struct Progress(Sender<()>);

impl Progress {
    /// Progress: the caller continues to wait.
    pub fn is_made(&self) {
        let _ = self.0.send(()); // the caller may have stopped waiting
    }
}

/// The first files that did not respond and were skipped.
pub fn left_out() -> Vec<PathBuf> {
    LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner).files.clone()
}

/// Leaves out a file that did not respond to another process: it is not tried again, and is listed with the others.
pub fn leave_out(path: &Path) {
    let mut left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    left_out.add(path.to_owned());
}

type Job = Box<dyn FnOnce() + Send>;

/// What performs the operations of a thread.
enum Performer {
    /// A new thread for each.
    Each,
    /// One thread: none before the first operation, and after one that is still waited for.
    Shared(Option<Sender<Job>>),
}

thread_local! {
    static PERFORMER: RefCell<Performer> = const { RefCell::new(Performer::Each) };
}

/// Lets the operations of this thread within `act` share another thread, as long as their files respond: to start one takes longer
/// than most operations. It has the rights of this thread at its first operation, so do not restrict these within `act`. Operations
/// within such operations share a third thread.
pub fn sharing_a_thread<T>(act: impl FnOnce() -> T) -> T {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            PERFORMER.set(Performer::Each);
        }
    }
    if PERFORMER.with_borrow(|performer| matches!(performer, Performer::Shared(_))) {
        return act();
    }
    PERFORMER.set(Performer::Shared(None));
    let _end = End;
    act()
}

/// Passes a job to the shared thread, or else to a new one.
fn start(job: Job) -> io::Result<()> {
    let unsent = PERFORMER.with_borrow(|performer| match performer {
        Performer::Shared(Some(jobs)) => jobs.send(job).err().map(|unsent| unsent.0),
        _ => Some(job),
    });
    let Some(job) = unsent else { return Ok(()) };
    let (sender, jobs) = mpsc::channel::<Job>();
    thread::Builder::new()
        .name("file".to_owned())
        .spawn(move || sharing_a_thread(|| jobs.into_iter().for_each(|job| job())))?;
    let sent = sender.send(job).map_err(|_| io::ErrorKind::BrokenPipe.into());
    share(Some(sender));
    sent
}

/// Which thread the next operations share, if they share one.
fn share(jobs: Option<Sender<Job>>) {
    PERFORMER.with_borrow_mut(|performer| {
        if let Performer::Shared(shared) = performer {
            *shared = jobs;
        }
    });
}

/// Performs an operation on the file at `path`.
///
/// # Errors
/// The error of `act`, or the file does not respond.
pub fn patiently<T: Send + 'static>(
    path: &Path,
    act: impl FnOnce(&Progress) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let of_descriptor = path
        .starts_with("/proc/self/fd")
        .then(|| fs::read_link(path).ok())
        .flatten();
    let name = of_descriptor.unwrap_or_else(|| path.to_owned());
    if left_out().contains(&name) {
        return Err(no_answer());
    }
    let (progress, sign) = mpsc::channel();
    let outcome = Arc::new(Mutex::new(None));
    let of_job = Arc::clone(&outcome);
    start(Box::new(move || {
        let progress = Progress(progress);
        let done = catch_unwind(AssertUnwindSafe(|| act(&progress)));
        *of_job.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        drop(progress);
    }))?;
    let mut steps = 0;
    loop {
        match sign.recv_timeout(STEP) {
            Ok(()) => steps = 0,
            // It has finished, and dropped its end.
            Err(RecvTimeoutError::Disconnected) => {
                let done = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
                let done = done.unwrap_or_else(|| Ok(Err(io::ErrorKind::BrokenPipe.into())));
                return done.unwrap_or_else(|panic| resume_unwind(panic));
            }
            Err(RecvTimeoutError::Timeout) => steps += 1,
        }
        let mut left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
        let may_take = if left_out.steps < STEPS_OF_ALL { STEPS } else { 2 };
        if steps >= may_take {
            left_out.steps = left_out.steps.saturating_add(steps);
            left_out.add(name);
            // The next operation has another thread.
            share(None);
            return Err(no_answer());
        }
    }
}

fn no_answer() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "its file system does not respond, so it is skipped",
    )
}

/// Returns `file`, or a copy if a mapping of it could block forever.
pub(crate) fn here(file: File, progress: &Progress) -> io::Result<File> {
    if fstatfs(file.as_fd())?.filesystem_type() != FUSE_SUPER_MAGIC {
        return Ok(file);
    }
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(file); // rejected elsewhere
    }
    if metadata.len() > MAX_COPY {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut copy = tempfile::tempfile_in(scratch::folder())?;
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    while offset < metadata.len() {
        // Not from the descriptor's position, which other processes may share.
        let read = file.read_at(&mut piece, offset)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        copy.write_all(bytes)?;
        offset = offset.saturating_add(read as u64);
        progress.is_made();
    }
    copy.rewind()?;
    Ok(copy)
}

/// The name of an open file, if it has one.
pub(crate) fn name_of(file: &File) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A failed unwrap fails the test.
mod tests {
    use std::thread::ThreadId;

    use super::*;

    fn id() -> ThreadId {
        patiently(Path::new("file"), |_| Ok(thread::current().id())).unwrap()
    }

    #[test]
    fn operations_share_a_thread_only_while_they_are_to() {
        let (first, others) = sharing_a_thread(|| {
            let first = id();
            let failed = patiently(Path::new("file"), |_| Err::<(), _>(io::ErrorKind::NotFound.into()));
            assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
            // A panic is that of the caller.
            let caught = catch_unwind(|| patiently(Path::new("file"), |_| -> io::Result<()> { panic!("damaged") }));
            assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "damaged");
            (first, [id(), sharing_a_thread(id), id()])
        });
        assert_eq!(others, [first; 3]);
        let later = [id(), id(), sharing_a_thread(id)];
        assert!(later[0] != later[1] && !later.contains(&first));
    }
}
