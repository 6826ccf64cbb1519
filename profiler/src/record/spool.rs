//! The files that a recording makes: nothing half-written takes an old file's place, and nothing is followed through a link.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use nix::fcntl::{AT_FDCWD, AtFlags};

use crate::cli::terminal::tell;
use crate::event::format::ChunkKind;
use crate::event::read::LogReader;

/// The profile while it is being made: a file without a name, so that nothing stays behind unless it is finished.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Opens the output before anything is recorded.
    ///
    /// # Errors
    /// When the place can't be written: named, with what to do.
    pub fn create(path: &Path) -> Result<Self> {
        refuse_special(path)?;
        let file = tempfile::tempfile_in(parent_of(path))
            .with_context(|| format!("cannot write {}; name another place", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// One that another process made: it puts it in its place. `path` is for messages.
    pub fn of(file: File, path: PathBuf) -> Self {
        Self { path, file }
    }

    /// Where to write.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the finished file in its place, in one step, and returns its size in bytes.
    ///
    /// # Errors
    /// When the disk is full or the place was taken away.
    pub fn finish(mut self) -> Result<u64> {
        let place = || {
            format!(
                "cannot finish {}; free space there, or name another place",
                self.path.display()
            )
        };
        let mode = fs::metadata(&self.path).map_or(0o644, |old| old.permissions().mode() & 0o777);
        self.file
            .set_permissions(fs::Permissions::from_mode(mode))
            .with_context(place)?;
        let size = self.file.metadata().with_context(place)?.len();
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let fresh = PathBuf::from(name);
        let placed = link(&self.file, &fresh)
            .or_else(|_| copy(&mut self.file, &fresh))
            .and_then(|()| fs::rename(&fresh, &self.path));
        if let Err(error) = placed {
            let _ = fs::remove_file(&fresh);
            return Err(error).with_context(place);
        }
        Ok(size)
    }
}

/// Gives a file without a name one (a file system that has such files can do so).
fn link(file: &File, to: &Path) -> std::io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    nix::unistd::linkat(AT_FDCWD, from.as_str(), AT_FDCWD, to, AtFlags::AT_SYMLINK_FOLLOW).map_err(Into::into)
}

fn copy(from: &mut File, to: &Path) -> std::io::Result<()> {
    from.seek(SeekFrom::Start(0))?;
    let mut file = create_new(to)?;
    file.set_permissions(from.metadata()?.permissions())?;
    std::io::copy(from, &mut file).map(|_| ())
}

/// Where an event log is: shared with whoever gives up, which may be at any moment.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// Where it goes, over an older log, once there is something in it.
    wanted: Option<PathBuf>,
    /// What is recorded runs.
    begun: bool,
}

impl Place {
    fn begin(&mut self) -> std::io::Result<()> {
        self.begun = true;
        if let Some(wanted) = self.wanted.take_if(|_| holds_events(&self.path)) {
            fs::rename(&self.path, &wanted)?;
            self.path = wanted;
        }
        Ok(())
    }

    /// Where the log is, if something was recorded; or else removes it, even if it was asked for.
    pub fn keep_or_remove(&self) -> Option<PathBuf> {
        if self.begun && holds_events(&self.path) {
            return Some(self.path.clone());
        }
        let _ = fs::remove_file(&self.path);
        None
    }
}

/// The event log of a recording.
#[derive(Debug)]
pub struct Spool {
    place: Arc<Mutex<Place>>,
    keep: bool,
    file: File,
}

impl Spool {
    /// Creates the log: for `keep`, where an older one stays until [`Self::begin`], or beside the output under a name of its own.
    ///
    /// # Errors
    /// When it can't be created: named, with what to do.
    pub fn create(output: &Path, keep: Option<&Path>) -> Result<Self> {
        let Some(keep) = keep else { return Self::beside(output) };
        refuse_special(keep)?;
        let mut fresh = keep.as_os_str().to_owned();
        fresh.push(format!(".{}.new", std::process::id()));
        let fresh = PathBuf::from(fresh);
        let file = create_new(&fresh).with_context(|| {
            format!(
                "cannot write the event log {}; name another place with --keep-events",
                keep.display()
            )
        })?;
        Ok(Self::new(fresh, Some(keep.to_owned()), file))
    }

    fn beside(output: &Path) -> Result<Self> {
        for attempt in 1..1000 {
            let mut name = OsString::from(output);
            name.push(if attempt == 1 {
                ".events".to_owned()
            } else {
                format!(".{attempt}.events")
            });
            let path = PathBuf::from(name);
            match create_new(&path) {
                Ok(file) => return Ok(Self::new(path, None, file)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot write {}; name another place", path.display()));
                }
            }
        }
        bail!(
            "a thousand old event logs lie beside {}; convert or remove them",
            output.display()
        )
    }

    fn new(path: PathBuf, wanted: Option<PathBuf>, file: File) -> Self {
        let keep = wanted.is_some();
        let place = Place {
            path,
            wanted,
            begun: false,
        };
        Self {
            place: Arc::new(Mutex::new(place)),
            keep,
            file,
        }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is and will be.
    pub fn shared_place(&self) -> Arc<Mutex<Place>> {
        self.place.clone()
    }

    /// The log's file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The log's file, to append to.
    pub fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.place().path.clone()
    }

    /// The person asked for it to stay.
    pub fn is_kept(&self) -> bool {
        self.keep
    }

    /// What is recorded runs: the log takes an older one's place.
    pub fn begin(&self) {
        let mut place = self.place();
        if let Err(error) = place.begin() {
            tell(format_args!(
                "the event log stays in {}, it could not be renamed: {error}",
                place.path.display()
            ));
        }
    }

    /// Where the log is, if something was recorded; or else removes it, even if it was asked for.
    pub fn keep_or_remove(&self) -> Option<PathBuf> {
        self.place().keep_or_remove()
    }

    /// Removes the log, unless it was asked for.
    pub fn discard(self) {
        if !self.keep {
            let _ = fs::remove_file(&self.place().path);
        }
    }
}

fn holds_events(log: &Path) -> bool {
    // Opened anew: capture writes where our own descriptor stands.
    let reader = File::open(log).and_then(LogReader::new);
    reader.is_ok_and(|log| log.has(ChunkKind::Events))
}

fn create_new(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_NOFOLLOW)
        .mode(0o600)
        .open(path)
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn refuse_special(path: &Path) -> Result<()> {
    if path.file_name().is_none() {
        bail!("`{}` names no file; give one, as in `profile.json.gz`", path.display());
    }
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => bail!("{} is a directory; name a file in it", path.display()),
        Ok(meta) if !meta.is_file() => {
            bail!(
                "{} is no regular file, and would be replaced; name another place",
                path.display()
            )
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
