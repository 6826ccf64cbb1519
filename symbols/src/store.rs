//! A folder of downloads in the user's cache. Only files that this user wrote, in folders that no
//! one else can change, are used.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::Uid;
use tempfile::NamedTempFile;

/// Cached files, by relative paths.
#[derive(Debug, Clone)]
pub(crate) struct Store(PathBuf);

impl Store {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Opens a file; `None`: there is none.
    ///
    /// # Errors
    /// It belongs to another user, or others may change it or a folder on its path; it can't be
    /// read.
    pub(crate) fn open(&self, relative: &Path) -> io::Result<Option<File>> {
        let found = self.folders(relative, |folder| check(folder, &fs::symlink_metadata(folder)?));
        match found.and_then(|path| Ok((open(&path)?, path))) {
            Ok((file, path)) => check(&path, &file.metadata()?).map(|()| Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A file that becomes visible at `relative` when it is [kept](Store::keep).
    ///
    /// # Errors
    /// A folder can't be created, or others may change it.
    pub(crate) fn create(&self, relative: &Path) -> io::Result<NamedTempFile> {
        let path = self.folders(relative, |folder| {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            check(folder, &fs::symlink_metadata(folder)?)
        })?;
        NamedTempFile::new_in(path.parent().unwrap_or(&self.0))
    }

    /// Moves a complete file to its path, and returns it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn keep(&self, file: NamedTempFile, relative: &Path) -> io::Result<File> {
        Ok(file.persist(self.0.join(relative))?)
    }

    /// Calls `each` for the store's folder and those below it on the path.
    fn folders(&self, relative: &Path, each: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut folder = self.0.clone();
        each(&folder)?;
        for part in relative.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            each(&folder)?;
        }
        Ok(self.0.join(relative))
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether a file or folder is this user's, and no one else may change it.
fn check(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let is_plain = metadata.is_file() || metadata.is_dir();
    if is_plain && metadata.uid() == Uid::effective().as_raw() && metadata.mode() & 0o022 == 0 {
        return Ok(());
    }
    let why = format!(
        "{} belongs to another user, or others may change it: remove it",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn kept(store: &Store, relative: &Path) -> PathBuf {
        let mut file = store.create(relative).unwrap();
        file.write_all(b"contents").unwrap();
        store.keep(file, relative).unwrap();
        store.0.join(relative)
    }

    #[test]
    fn only_what_the_user_wrote_is_used() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::new(place.path().join("cache"));
        let name = Path::new("libx.so/ID/libx.so.sym");
        assert!(store.open(name).unwrap().is_none());
        let path = kept(&store, name);
        let mut text = String::new();
        store.open(name).unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "contents");
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);

        let refused = |why: &str| {
            let error = store.open(name).unwrap_err().to_string();
            assert!(error.contains("remove it"), "{why}: {error}");
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        refused("anyone may write the file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let folder = path.parent().unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        refused("anyone may replace the file");
        assert!(store.create(name).is_err());
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(store.open(name).unwrap().is_some());
        if Uid::effective().is_root() {
            chown(&path, Some(65534), None).unwrap();
            refused("another user's file");
        } else {
            eprintln!("skipped: only root can change the owner of a file");
        }
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
        assert!(store.open(name).is_err(), "a link");
    }

    #[test]
    fn paths_stay_below_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::new(place.path().join("cache"));
        for name in ["../x", "/etc/passwd", "a/../../x"] {
            assert!(
                store.open(Path::new(name)).is_err() && store.create(Path::new(name)).is_err(),
                "{name}"
            );
        }
    }
}
