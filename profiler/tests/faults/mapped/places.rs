//! Folders on several file systems.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::scratch;

/// Where a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The disk of the other tests.
    Disk,
    /// A tmpfs without huge pages.
    SharedMemory,
    /// A new file system of this kind in a file.
    In(&'static str),
    /// A new tmpfs of huge pages.
    HugeTmpfs,
}

/// A folder that is removed, and unmounted, when it is dropped.
pub struct Folder {
    path: PathBuf,
    is_mounted: bool,
    _around: tempfile::TempDir,
}

impl Place {
    /// Creates a folder there. An error says why this machine can't.
    pub fn create(self) -> Result<Folder, String> {
        match self {
            Self::Disk => Ok(Folder::plain(scratch())),
            Self::SharedMemory => {
                let folder = tempfile::Builder::new().prefix("faults-").tempdir_in("/dev/shm");
                folder.map(Folder::plain).map_err(|error| format!("/dev/shm: {error}"))
            }
            Self::In(kind) => Folder::mounted(kind, |folder| {
                let image = folder.join("image");
                std::fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
                let is_made = ends_well(Command::new(format!("mkfs.{kind}")).arg(&image));
                is_made.then(|| vec!["-o".into(), "loop".into(), image.into_os_string()])
            }),
            Self::HugeTmpfs => Folder::mounted("tmpfs of huge pages", |_| {
                Some(
                    ["-t", "tmpfs", "-o", "huge=always", "tmpfs"]
                        .map(OsString::from)
                        .to_vec(),
                )
            }),
        }
    }
}

impl Folder {
    fn plain(folder: tempfile::TempDir) -> Self {
        let path = folder.path().to_owned();
        Self {
            path,
            is_mounted: false,
            _around: folder,
        }
    }

    fn mounted(what: &str, arguments: impl FnOnce(&Path) -> Option<Vec<OsString>>) -> Result<Self, String> {
        let folder = scratch();
        let path = folder.path().join("mnt");
        std::fs::create_dir(&path).unwrap();
        let is_mounted = arguments(folder.path())
            .is_some_and(|arguments| ends_well(Command::new("mount").args(arguments).arg(&path)));
        if !is_mounted {
            return Err(format!("no {what} can be created and mounted here"));
        }
        Ok(Self {
            path,
            is_mounted,
            _around: folder,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg(&self.path).status();
        }
    }
}

fn ends_well(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
