//! Opens each executable file that is mapped for the first time, for the record half to read. It is never parsed here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, fstatfs};
use rustc_hash::FxHashSet;

use super::wire::Mapped;
use crate::event::{FileId, Mapping, PROT_EXEC};

/// Different files in one recording, at most.
const FILES_LIMIT: usize = 1 << 16;
/// What the kernel adds to the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// The files that were named to the record half.
#[derive(Debug, Default)]
pub struct Files {
    named: FxHashSet<(FileId, Vec<u8>)>,
}

impl Files {
    /// Whether a mapping shows an executable file for the first time.
    pub fn is_new(&mut self, mapping: &Mapping) -> bool {
        mapping.protection & PROT_EXEC != 0
            && mapping.file.inode != 0
            && self.named.len() < FILES_LIMIT
            && self.named.insert((mapping.file, mapping.path.clone()))
    }
}

/// Opens the file behind a mapping; with `open` false it is only named.
pub fn mapped(mapping: &Mapping, open: bool) -> (Mapped, Option<OwnedFd>) {
    let opened = if open {
        open_mapped(mapping)
    } else {
        Err(io::Error::other("too many new files at once"))
    };
    let (problem, file) = match opened {
        Ok(file) => (None, Some(file.into())),
        Err(error) => (Some(error.to_string()), None),
    };
    let path = String::from_utf8_lossy(&mapping.path).into_owned();
    (
        Mapped {
            pid: mapping.at.pid,
            file: mapping.file,
            path,
            problem,
        },
        file,
    )
}

/// By the mapping itself, which is the very file even if its name is gone or means another one now; or by its name in the
/// process's root folder, or (if the process is gone) in ours.
pub(super) fn open_mapped(mapping: &Mapping) -> io::Result<File> {
    let pid = mapping.at.pid;
    let (start, end) = (mapping.start.0, mapping.start.0.saturating_add(mapping.len));
    let by_mapping = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    if let Ok(file) = open_regular(&by_mapping).and_then(|file| same_file(file, mapping.file)) {
        return Ok(file);
    }
    let no_name = || io::Error::new(io::ErrorKind::NotFound, "the file has no name any more");
    if mapping.path.first() != Some(&b'/') {
        return Err(no_name());
    }
    let name = Path::new(std::ffi::OsStr::from_bytes(&mapping.path));
    let mut in_root = PathBuf::from(format!("/proc/{pid}/root")).into_os_string();
    in_root.push(name);
    let in_root = open_regular(Path::new(&in_root)).and_then(|file| same_file(file, mapping.file));
    let opened = in_root.or_else(|_| open_regular(name).and_then(|file| same_file(file, mapping.file)));
    // A file may really be called so: then it was there.
    opened.map_err(|error| {
        if mapping.path.ends_with(DELETED) {
            no_name()
        } else {
            error
        }
    })
}

/// Opens a file that is a regular one, without ever opening a device or waiting for a pipe.
///
/// # Errors
/// When it is none, or can't be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)?;
    if !place.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let again = format!("/proc/self/fd/{}", place.as_raw_fd());
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(again)
}

/// Whether a file is the mapped one. On overlayfs and btrfs the mapping shows another device than the file itself.
fn same_file(file: File, id: FileId) -> io::Result<File> {
    let metadata = file.metadata()?;
    let device = (major(metadata.dev()), minor(metadata.dev()));
    let same_device = device == (u64::from(id.major), u64::from(id.minor));
    let hides_device =
        || fstatfs(&file).is_ok_and(|fs| [OVERLAYFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC].contains(&fs.filesystem_type()));
    if metadata.ino() == id.inode && (same_device || hides_device()) {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::NotFound, "another file has its name now"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::At;

    fn mapping_of(path: &Path, file: &File) -> Mapping {
        let metadata = file.metadata().unwrap();
        let narrow = |number: u64| u32::try_from(number).unwrap();
        Mapping {
            at: At {
                pid: std::process::id(),
                ..At::default()
            },
            protection: PROT_EXEC,
            file: FileId {
                major: narrow(major(metadata.dev())),
                minor: narrow(minor(metadata.dev())),
                inode: metadata.ino(),
                generation: 0,
            },
            path: path.as_os_str().as_bytes().to_vec(),
            ..Mapping::default()
        }
    }

    #[test]
    fn the_file_that_took_the_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.so");
        let old = File::create(&path).unwrap();
        let mapping = mapping_of(&path, &old);
        assert!(mapped(&mapping, true).1.is_some());
        std::fs::write(folder.path().join("new"), "new").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        let (message, file) = mapped(&mapping, true);
        assert!(file.is_none());
        assert_eq!(message.problem.as_deref(), Some("another file has its name now"));
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(open_regular(&path).is_err());
        assert!(open_regular(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn each_file_is_new_once() {
        let mut files = Files::default();
        let code = Mapping {
            protection: PROT_EXEC,
            file: FileId {
                inode: 5,
                ..FileId::default()
            },
            path: b"/x".to_vec(),
            ..Mapping::default()
        };
        assert!(files.is_new(&code) && !files.is_new(&code));
        assert!(!files.is_new(&Mapping {
            protection: 1,
            path: b"/y".to_vec(),
            ..code.clone()
        }));
        assert!(!files.is_new(&Mapping {
            file: FileId::default(),
            ..code
        }));
    }
}
