//! Files that may be opened at all: plain ones, on file systems that store files. A file is looked at before it is opened, and what
//! is opened is what was looked at: another program may put a pipe or a device in its place meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::statfs::{self, FsType, fstatfs};

use crate::patience::{here, patiently};

/// File systems whose files are no files but the kernel's answers.
const ANSWERS: &[FsType] = &[
    statfs::PROC_SUPER_MAGIC,
    statfs::SYSFS_MAGIC,
    statfs::DEBUGFS_MAGIC,
    statfs::TRACEFS_MAGIC,
    statfs::CGROUP_SUPER_MAGIC,
    statfs::CGROUP2_SUPER_MAGIC,
    statfs::BPF_FS_MAGIC,
    statfs::SECURITYFS_MAGIC,
    statfs::DEVPTS_SUPER_MAGIC,
    statfs::SELINUX_MAGIC,
    statfs::NSFS_MAGIC,
];
/// Where no program's file is.
const NEVER: &[&str] = &["/proc", "/sys", "/dev"];

/// Opens a plain file, whatever file system it is on. It never waits: not for a pipe's other end, nor for who has a lease, nor for long
/// for a file system that does not answer.
///
/// # Errors
/// There is nothing, no plain file, or it may not be read.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let own = path.to_owned();
    patiently(path, move |progress| {
        let handle = look(&own)?;
        plain(&handle)?;
        here(open(&handle)?, progress)
    })
}

/// A file that `open` opens, with the patience of [`open_plain`].
///
/// # Errors
/// Those of `open`; the file does not answer.
pub fn open_patiently(path: &Path, open: impl FnOnce(&Path) -> io::Result<File> + Send + 'static) -> io::Result<File> {
    let own = path.to_owned();
    patiently(path, move |progress| here(open(&own)?, progress))
}

/// As [`open_plain`], of a name that a hostile file may have chosen: nothing of the kernel's.
pub(crate) fn open_stored(path: &Path) -> io::Result<File> {
    Vetted::new(path)?.open()
}

/// A plain file that nothing has been read of yet.
pub(crate) struct Vetted {
    /// Opened without access to the contents: that has no effect on a device or a pipe.
    handle: File,
    /// Its status.
    pub metadata: fs::Metadata,
    /// Where it really is, after all symbolic links.
    pub path: PathBuf,
}

impl Vetted {
    /// Looks at what is at `path`.
    ///
    /// # Errors
    /// There is nothing, or no plain file.
    pub fn new(path: &Path) -> io::Result<Self> {
        let own = path.to_owned();
        patiently(path, move |_| {
            let handle = look(&own)?;
            let metadata = plain(&handle)?;
            let kind = fstatfs(handle.as_fd()).map_err(io::Error::from)?.filesystem_type();
            let path = fs::read_link(reopen(&handle))?;
            if ANSWERS.contains(&kind) || NEVER.iter().any(|never| path.starts_with(never)) {
                return Err(refused("it is a file of the kernel's"));
            }
            Ok(Self { handle, metadata, path })
        })
    }

    /// Opens the very file that was looked at.
    ///
    /// # Errors
    /// It may not be read.
    pub fn open(self) -> io::Result<File> {
        let path = self.path;
        patiently(&path, move |progress| here(open(&self.handle)?, progress))
    }

    /// Both are one file.
    pub fn is(&self, other: &Self) -> bool {
        (self.metadata.dev(), self.metadata.ino()) == (other.metadata.dev(), other.metadata.ino())
    }

    /// Both have the same bytes.
    ///
    /// # Errors
    /// One may not be read.
    pub fn has_contents_of(self, other: Self) -> io::Result<bool> {
        if self.metadata.len() != other.metadata.len() {
            return Ok(false);
        }
        let (mut one, mut other) = (BufReader::new(self.open()?), BufReader::new(other.open()?));
        loop {
            let (a, b) = (one.fill_buf()?, other.fill_buf()?);
            let len = a.len().min(b.len());
            if a[..len] != b[..len] || (len == 0 && a.len() != b.len()) {
                return Ok(false);
            }
            if len == 0 {
                return Ok(true);
            }
            one.consume(len);
            other.consume(len);
        }
    }
}

fn look(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_PATH | OFlag::O_CLOEXEC).bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn plain(handle: &File) -> io::Result<fs::Metadata> {
    let metadata = handle.metadata()?;
    if metadata.is_file() {
        Ok(metadata)
    } else {
        Err(refused("it is no plain file"))
    }
}

fn open(handle: &File) -> io::Result<File> {
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).bits();
    OpenOptions::new().read(true).custom_flags(flags).open(reopen(handle))
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn reopen(handle: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

/// Whether the file at `path` may be looked into for symbols. What is in it has to have the right build id besides.
pub(crate) fn is_library(path: &Path) -> bool {
    path.is_absolute() && Vetted::new(path).is_ok()
}
