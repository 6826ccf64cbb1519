//! Opens each executable file that is mapped for the first time, for the recorder to read. It is never parsed here.
//!
//! The recorded program chooses which files it maps, how they are named and what is mounted where. So no link is followed, the file must be the mapped one, and
//! the kernel decides whether the program's user and the user who receives the file may read it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use rustc_hash::FxHashSet;

use super::detached::{detached, through_link};
use super::same_file::require_same;
use crate::privilege::rights::Rights;
use crate::socket::wire::Mapped;
use base::event::{FileId, Mapping, PROT_EXEC};

/// Different files in one recording, at most.
const FILES_LIMIT: usize = 1 << 16;
/// What the kernel appends to the name of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// The files that were reported to the recorder.
#[derive(Debug, Default)]
pub struct ReportedFiles {
    named: FxHashSet<(FileId, Vec<u8>)>,
}

impl ReportedFiles {
    /// Whether a mapping shows an executable file for the first time.
    pub fn is_new(&mut self, mapping: &Mapping) -> bool {
        mapping.protection & PROT_EXEC != 0
            && mapping.file.inode != 0
            && self.named.len() < FILES_LIMIT
            && self.named.insert((mapping.file, mapping.path.clone()))
    }
}

/// Opens the file behind a mapping for `reader`.
pub fn mapped(mapping: &Mapping, reader: &Rights) -> (Mapped, Option<OwnedFd>) {
    let (problem, file) = match open_mapped(mapping, reader) {
        Ok(file) => (None, Some(file.into())),
        Err(error) => (Some(error.to_string()), None),
    };
    (named(mapping, problem), file)
}

/// The message about a mapped file.
pub(crate) fn named(mapping: &Mapping, problem: Option<String>) -> Mapped {
    Mapped {
        pid: mapping.at.pid,
        file: mapping.file,
        path: String::from_utf8_lossy(&mapping.path).into_owned(),
        problem,
        is_silent: false,
    }
}

/// Opens the file through the mapping itself, which is the right file even if its name is gone or has been reused; or by its name below the process's root folder,
/// or (if the process is gone) below ours.
pub fn open_mapped(mapping: &Mapping, reader: &Rights) -> io::Result<File> {
    let opening = Opening {
        id: mapping.file,
        process: Rights::of_process(mapping.at.pid).ok(),
        reader,
    };
    let by_mapping = opening.by_mapping(mapping);
    // A file that may not be read through the mapping may not be read by its name either.
    if matches!(&by_mapping, Ok(_) | Err(Failure::Refused(_))) {
        return by_mapping.map_err(Failure::into_inner);
    }
    let no_name = || io::Error::new(io::ErrorKind::NotFound, "the file has no name any more");
    if mapping.path.first() != Some(&b'/') {
        return Err(no_name());
    }
    opening.by_name(mapping).map_err(Failure::into_inner)
}

/// Opens a regular file, without ever opening a device or waiting for a pipe.
///
/// # Errors
/// When it is not a regular file, or can't be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let place = place(path)?;
    require_regular(&place)?;
    reopen(&place)
}

/// Opens a regular file by its own name: no link is followed. Root opens only files that all users may read, since the recorded program chose the name.
///
/// # Errors
/// When it is not a regular file, or may not be read.
pub fn open_without_links(path: &Path) -> io::Result<File> {
    let found = inside(&root_folder()?, path)?;
    let metadata = require_regular(&found)?;
    if nix::unistd::geteuid().is_root() {
        require_public(&metadata)?;
    }
    reopen(&found)
}

/// Why a file is not passed on.
enum Failure {
    /// It does not exist, or is a different file.
    Missing(io::Error),
    /// It may not be read.
    Refused(io::Error),
}

impl Failure {
    fn into_inner(self) -> io::Error {
        match self {
            Self::Missing(error) | Self::Refused(error) => error,
        }
    }
}

/// A mapped file to open.
struct Opening<'r> {
    id: FileId,
    /// The rights of the process that maps it; `None`: it is gone.
    process: Option<Rights>,
    /// The rights of the user who receives the file.
    reader: &'r Rights,
}

impl Opening<'_> {
    fn by_mapping(&self, mapping: &Mapping) -> Result<File, Failure> {
        let (start, end) = (mapping.start.0, mapping.start.0.saturating_add(mapping.len));
        let link = PathBuf::from(format!("/proc/{}/map_files/{start:x}-{end:x}", mapping.at.pid));
        let place = through_link(&link).map_err(Failure::Missing)?;
        let file = self.read(&place)?;
        if !self.is_own() {
            let name = std::fs::read_link(&link).map_err(Failure::Missing)?;
            self.reach(mapping.at.pid, &name, &place).map_err(Failure::Refused)?;
        }
        Ok(file)
    }

    fn by_name(&self, mapping: &Mapping) -> Result<File, Failure> {
        let name = Path::new(std::ffi::OsStr::from_bytes(&mapping.path));
        let found = root(mapping.at.pid)
            .or_else(|_| root_folder())
            .and_then(|root| self.reader.within(|| inside(&root, name)));
        self.read(&detached(found.map_err(Failure::Missing)?))
    }

    /// Whether the reader may inspect everything that the process may.
    fn is_own(&self) -> bool {
        self.process.as_ref().is_some_and(|process| self.reader.covers(process))
    }

    /// Opens the file for reading, if both the process and the reader may read it.
    fn read(&self, place: &File) -> Result<File, Failure> {
        let metadata = require_regular(place).map_err(Failure::Missing)?;
        let by_process = match &self.process {
            Some(process) => process.reopen(place).map(drop),
            None => require_public(&metadata),
        };
        by_process.map_err(|error| Failure::refused("the process", &error))?;
        let file = self.reader.reopen(place);
        let file = file.map_err(|error| Failure::refused(&format!("user {}", self.reader.user()), &error))?;
        require_same(&file, self.id).map_err(Failure::Missing)?;
        Ok(file)
    }

    /// Fails unless the reader could reach the name of another user's file, or the folder that contained its name.
    fn reach(&self, pid: u32, name: &Path, place: &File) -> io::Result<()> {
        let root = root(pid)?;
        let Some(former) = name.as_os_str().as_bytes().strip_suffix(DELETED) else {
            return self.reader.within(|| inside(&root, name)).map(drop);
        };
        let folder = Path::new(std::ffi::OsStr::from_bytes(former)).parent();
        let folder = folder.ok_or(io::ErrorKind::NotFound)?;
        // Access to its contents is required, not only to the folder itself.
        let folder = self.reader.within(|| inside(&root, &folder.join(".")))?;
        // Memory files have names, too, but no folder.
        if folder.metadata()?.dev() == place.metadata()?.dev() {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::NotFound, "the file has no name any more"))
        }
    }
}

impl Failure {
    fn refused(who: &str, error: &io::Error) -> Self {
        Self::Refused(io::Error::new(
            error.kind(),
            format!("{who} may not read the file: {error}"),
        ))
    }
}

/// The root folder of a process.
fn root(pid: u32) -> io::Result<File> {
    place(Path::new(&format!("/proc/{pid}/root")))
}

/// Our own root folder.
fn root_folder() -> io::Result<File> {
    place(Path::new("/"))
}

/// Opens a path without access to its contents (`O_PATH`): that has no effect on a device or a pipe.
pub(crate) fn place(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)
}

/// Opens an absolute path below a root folder, as [`place`] does. Paths of mappings contain no links: a link that is there now leads to another file.
fn inside(root: &File, path: &Path) -> io::Result<File> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(root, path, how) {
        Ok(place) => Ok(place.into()),
        Err(Errno::ELOOP) => Err(io::Error::new(io::ErrorKind::NotFound, "a link has this name now")),
        Err(error) => Err(error.into()),
    }
}

fn require_regular(place: &File) -> io::Result<Metadata> {
    let metadata = place.metadata()?;
    if metadata.is_file() {
        Ok(metadata)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// Fails unless all users may read it.
fn require_public(metadata: &Metadata) -> io::Result<()> {
    if metadata.mode() & 0o004 != 0 {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn reopen(place: &File) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", place.as_raw_fd()))
}

#[cfg(test)]
mod tests;
