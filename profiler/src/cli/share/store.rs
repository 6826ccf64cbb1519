//! The list of shared profiles with their deletion tokens, in a file that only the user can read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// The list of shared profiles.
const NAME: &str = "shared.json";
/// Lock file, held while the list is changed.
const LOCK: &str = "shared.lock";
/// Upper bound of the bytes of one entry.
const ENTRY: usize = 16 << 10;

/// A shared profile. It has no `Debug`, so that its tokens never appear in a log.
#[derive(Clone, Serialize, Deserialize)]
pub struct Shared {
    /// The link to open it.
    pub link: String,
    /// The short link.
    pub short_link: Option<String>,
    /// The storage service that has it.
    pub api: String,
    /// Its name in the storage.
    pub profile_token: String,
    /// The deletion token.
    pub deletion_token: String,
    /// The path as the user gave it.
    pub file: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of the upload in seconds since 1970.
    pub time: u64,
}

/// The list, locked against other processes.
pub struct Store {
    folder: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens the user's list in `$XDG_STATE_HOME/ngmi`, by default `~/.local/state/ngmi`.
    ///
    /// # Errors
    /// There is no such folder, or it is not writable.
    pub fn open() -> Result<Self> {
        let Some(state) = symbols::home::state_folder() else {
            bail!("no folder for deletion tokens: set HOME or XDG_STATE_HOME to a folder of this user");
        };
        Self::at(state.join("ngmi"))
    }

    fn at(folder: PathBuf) -> Result<Self> {
        let lock = || -> io::Result<File> {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let mut options = OpenOptions::new();
            let lock = options.create(true).append(true).mode(0o600).open(folder.join(LOCK))?;
            lock.lock()?;
            Ok(lock)
        };
        let lock = lock().with_context(|| {
            let place = folder.display();
            format!("cannot write {place}, where deletion tokens are saved; set XDG_STATE_HOME to another folder")
        })?;
        Ok(Self { folder, _lock: lock })
    }

    /// All profiles that were shared and not deleted, oldest first.
    ///
    /// # Errors
    /// The list can't be read, or is damaged.
    pub fn list(&self) -> Result<Vec<Shared>> {
        let path = self.path();
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{} is damaged; move it away to start a new list", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Verifies that another entry can be saved, and reserves its disk space until the returned
    /// file is closed.
    ///
    /// # Errors
    /// The list can't be read or written.
    pub fn reserve(&self) -> Result<File> {
        let list = self.list()?;
        if self.path().exists() {
            // Includes the current entries: a readable list may still not be replaceable.
            self.write(&list)?;
        }
        let room = || -> io::Result<File> {
            let mut room = tempfile::tempfile_in(&self.folder)?;
            room.write_all(&vec![0; serde_json::to_vec_pretty(&list)?.len() + ENTRY])?;
            room.sync_all()?;
            Ok(room)
        };
        room().with_context(|| format!("cannot write {}", self.path().display()))
    }

    /// Adds a profile, or replaces its entry.
    ///
    /// # Errors
    /// The list can't be read or written.
    pub fn put(&self, shared: &Shared) -> Result<()> {
        let mut list = self.list()?;
        match list.iter_mut().find(|known| known.is_same(shared)) {
            Some(known) => known.clone_from(shared),
            None => list.push(shared.clone()),
        }
        self.write(&list)
    }

    /// Removes a profile.
    ///
    /// # Errors
    /// The list can't be read or written.
    pub fn remove(&self, gone: &Shared) -> Result<()> {
        let mut list = self.list()?;
        list.retain(|shared| !shared.is_same(gone));
        self.write(&list)
    }

    /// Writes the list atomically, readable only by the user from the first byte on.
    fn write(&self, list: &[Shared]) -> Result<()> {
        let place = || format!("cannot write {}", self.path().display());
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).with_context(place)?;
        serde_json::to_writer_pretty(&mut file, list).with_context(place)?;
        // Some file systems report a full disk only then.
        file.as_file().sync_all().with_context(place)?;
        file.persist(self.path()).with_context(place)?;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }
}

impl Shared {
    fn is_same(&self, other: &Self) -> bool {
        self.profile_token == other.profile_token && self.api == other.api
    }

    /// Whether `link` belongs to this profile: its link, its short link, or its name.
    pub fn is_called(&self, link: &str) -> bool {
        let plain = |text: &str| {
            let text = text.trim_end_matches('/');
            text.trim_start_matches("https://")
                .trim_start_matches("http://")
                .to_owned()
        };
        // After a click in the profiler, the view follows the token.
        let in_link = || link.split('/').any(|part| part == self.profile_token);
        in_link()
            || self
                .short_link
                .as_deref()
                .is_some_and(|short| plain(short) == plain(link))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn shared(token: &str) -> Shared {
        Shared {
            link: format!("https://profiler.example/public/{token}/"),
            short_link: Some(format!("https://short.example/{token}s")),
            api: "https://api.example".into(),
            profile_token: token.into(),
            deletion_token: "secret".into(),
            file: "p.json.gz".into(),
            size: 1,
            time: 2,
        }
    }

    #[test]
    fn the_list_is_saved_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("state/ngmi")).unwrap();
        assert!(store.list().unwrap().is_empty());
        drop(store.reserve().unwrap());
        assert!(!store.path().exists(), "nothing was shared yet");
        let long = Shared {
            short_link: None,
            ..shared("bbb")
        };
        for one in [shared("aaa"), long, shared("bbb")] {
            store.put(&one).unwrap();
        }
        drop(store.reserve().unwrap());
        store.remove(&shared("aaa")).unwrap();
        let list = store.list().unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].profile_token, "bbb");
        assert!(list[0].short_link.is_some());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.path()), 0o600);
        assert_eq!(mode(&store.folder), 0o700);
        fs::write(store.path(), "{").unwrap();
        assert!(format!("{:#}", store.list().err().unwrap()).contains("damaged"));
    }

    #[test]
    fn a_profile_is_found_by_any_of_its_links() {
        let one = shared("abc");
        for link in [
            "https://profiler.example/public/abc/",
            "https://profiler.example/public/abc/calltree/?thread=0",
            "https://short.example/abcs",
            "short.example/abcs/",
            "abc",
        ] {
            assert!(one.is_called(link), "{link}");
        }
        for link in [
            "",
            "https://profiler.example/public/abcd/",
            "https://short.example/abc1",
        ] {
            assert!(!one.is_called(link), "{link}");
        }
    }
}
