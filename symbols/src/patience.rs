//! Opens files on file systems that may never answer: a program can run one itself (FUSE), and stand still. What takes too long is
//! left to a thread of its own, and left out. Nothing of such a file is mapped: it is copied first.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::statfs::{FsType, fstatfs};

use crate::symbolicator::Config;

/// Of `linux/magic.h`.
const FUSE_SUPER_MAGIC: FsType = FsType(0x6573_5546);
/// How long is waited at once. A process that was stopped meanwhile has lost one of them.
const STEP: Duration = Duration::from_millis(500);
/// Steps without an answer after which a file is left out.
const STEPS: u32 = 20;
/// Steps that all files of a process may take together: from then on a file has two.
const STEPS_OF_ALL: u32 = 60;
/// Bytes that are read between two signs of life.
const PIECE: usize = 1 << 20;
/// Larger files are not copied.
const MAX_COPY: u64 = 2 << 30;
/// Files that are named afterwards.
const NAMED: usize = 16;

/// What did not answer.
static LEFT_OUT: Mutex<LeftOut> = Mutex::new(LeftOut {
    steps: 0,
    files: Vec::new(),
});

struct LeftOut {
    steps: u32,
    files: Vec<PathBuf>,
}

/// Says that a file still answers.
pub struct Progress(Sender<()>);

impl Progress {
    /// It went on: whoever waits, waits on.
    pub fn is_made(&self) {
        let _ = self.0.send(()); // who waits may have lost patience
    }
}

/// The files that did not answer and were left out, the first ones.
pub fn left_out() -> Vec<PathBuf> {
    LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner).files.clone()
}

/// Does something with the file at `path`.
///
/// # Errors
/// What `act` says; the file does not answer.
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
    let thread = thread::Builder::new()
        .name("file".to_owned())
        .spawn(move || act(&Progress(progress)))?;
    let mut steps = 0;
    loop {
        match sign.recv_timeout(STEP) {
            Ok(()) => steps = 0,
            // It is done, and has dropped its end.
            Err(RecvTimeoutError::Disconnected) => {
                return thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            Err(RecvTimeoutError::Timeout) => steps += 1,
        }
        let mut left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
        let may_take = if left_out.steps < STEPS_OF_ALL { STEPS } else { 2 };
        if steps >= may_take {
            left_out.steps = left_out.steps.saturating_add(steps);
            if left_out.files.len() < NAMED {
                left_out.files.push(name);
            }
            return Err(no_answer());
        }
    }
}

fn no_answer() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "its file system does not answer, so it is left out",
    )
}

/// `file`, or a copy where memory that shows it could wait for ever.
pub(crate) fn here(file: File, progress: &Progress) -> io::Result<File> {
    if fstatfs(file.as_fd())?.filesystem_type() != FUSE_SUPER_MAGIC {
        return Ok(file);
    }
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(file); // is refused elsewhere
    }
    if metadata.len() > MAX_COPY {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut copy = tempfile::tempfile_in(Config::scratch_folder())?;
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    while offset < metadata.len() {
        // Not from where the descriptor stands, which other processes may share.
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

/// The name of an open file, as far as it has one.
pub(crate) fn name_of(file: &File) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}
