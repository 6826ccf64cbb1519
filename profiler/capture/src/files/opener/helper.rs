//! The process that opens files: `ngmi __open`. It serves requests on a socket, one file at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::served;
use crate::files::open::open_mapped;
use crate::privilege::rights::Rights;
use crate::socket::link::Link;
use base::addr::Avma;
use base::event::{At, FileId, Mapping};

/// A request to open a file or folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Ask {
    /// The file behind a mapping.
    Mapped {
        /// A process that maps it.
        pid: u32,
        /// First address.
        start: u64,
        /// Bytes.
        len: u64,
        /// Its identity in the mapping.
        file: FileId,
        /// Its path as the mapping spells it.
        path: Vec<u8>,
    },
    /// The `/tmp` of a process, opened with `O_PATH` only.
    Folder(u32),
    /// A perf map. Carries its folder.
    PerfMap {
        /// Its name there.
        name: String,
        /// Its owner.
        user: u32,
        /// When the owner started; an older file belongs to another process.
        born: SystemTime,
        /// It is no longer written, so a copy would be complete.
        may_copy: bool,
    },
}

/// The reply to an [`Ask`].
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The file is being copied.
    Copying,
    /// The file is open. Carries its descriptor.
    Opened {
        /// Device and inode.
        id: (u64, u64),
        /// Bytes of it that were copied.
        copied: u64,
    },
    /// The file could not be opened, for this reason.
    Refused(String),
}

impl Ask {
    /// A request for the file behind a mapping.
    pub fn mapped(mapping: &Mapping) -> Self {
        Self::Mapped {
            pid: mapping.at.pid,
            start: mapping.start.0,
            len: mapping.len,
            file: mapping.file,
            path: mapping.path.clone(),
        }
    }
}

/// Answers requests until the socket is closed.
///
/// # Errors
/// When the user's rights can't be looked up, or the requesting process is gone.
pub fn serve(socket: OwnedFd, user: Option<u32>) -> anyhow::Result<()> {
    let reader = user.map_or_else(Rights::own, Rights::of_user)?;
    let link = Link::from(socket);
    while let Some(((ask, limit), folder)) = link.receive::<(Ask, u64)>()? {
        let folder = folder.map(File::from);
        let copying = || {
            let _ = link.send(&Answer::Copying, None); // the requesting process may be gone
        };
        match act(&ask, folder.as_ref(), &reader, limit, &copying) {
            Ok(Found { file, id, copied }) => link.send(&Answer::Opened { id, copied }, Some(file.as_fd()))?,
            Err(error) => link.send(&Answer::Refused(error.to_string()), None)?,
        }
    }
    Ok(())
}

/// A file that was opened.
pub(crate) struct Found {
    pub(crate) file: File,
    /// Device and inode.
    pub(crate) id: (u64, u64),
    copied: u64,
}

/// Opens what is requested; a copy of it may take `limit` bytes.
pub(crate) fn act(
    ask: &Ask,
    folder: Option<&File>,
    reader: &Rights,
    limit: u64,
    copying: &dyn Fn(),
) -> io::Result<Found> {
    let (file, may_copy) = match ask {
        Ask::Mapped {
            pid,
            start,
            len,
            file,
            path,
        } => {
            let mapping = Mapping {
                at: At {
                    pid: *pid,
                    ..At::default()
                },
                start: Avma(*start),
                len: *len,
                file: *file,
                path: path.clone(),
                ..Mapping::default()
            };
            (open_mapped(&mapping, reader)?, true)
        }
        Ask::Folder(pid) => {
            let file = folder_of(*pid)?;
            let metadata = file.metadata()?;
            return Ok(Found {
                file,
                id: (metadata.dev(), metadata.ino()),
                copied: 0,
            });
        }
        Ask::PerfMap {
            name,
            user,
            born,
            may_copy,
        } => {
            let folder = folder.ok_or(io::ErrorKind::NotFound)?;
            (perf_map(folder, name, *user, *born, reader)?, *may_copy)
        }
    };
    let metadata = file.metadata()?;
    let id = (metadata.dev(), metadata.ino());
    // Closing a file of such a server waits for the server. So only this process has it open.
    if served::by_a_program(&file)? {
        if !may_copy {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let file = served::copied(&file, limit, copying)?;
        return Ok(Found {
            copied: metadata.len(),
            file,
            id,
        });
    }
    Ok(Found { file, id, copied: 0 })
}

/// Opens the `/tmp` of a process. A symbolic link is not followed: it would lead out of the process's root.
fn folder_of(pid: u32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(format!("/proc/{pid}/root/tmp"))
}

/// Opens a perf map: a regular file that the process owns and wrote in its lifetime.
fn perf_map(folder: &File, name: &str, user: u32, born: SystemTime, reader: &Rights) -> io::Result<File> {
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))?;
    let metadata = place.metadata()?;
    if !metadata.is_file() || metadata.uid() != user || metadata.modified()? < born {
        return Err(io::ErrorKind::NotFound.into());
    }
    // Opened for reading only now: a device or a pipe would have noticed.
    reader.reopen(&place)
}
