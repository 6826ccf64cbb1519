//! The output files of a recording: no partial file replaces an old one, and no link is followed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use nix::fcntl::{AT_FDCWD, AtFlags};

use crate::event::format::ChunkKind;
use crate::event::read::LogReader;
use crate::terminal::print_note;

/// Mode of a new file, before the umask.
const NEW_MODE: u32 = 0o666;

/// The profile in progress: an unnamed file, which leaves nothing behind unless it is finished.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Opens the output before anything is recorded.
    ///
    /// # Errors
    /// When the place can't be written, or has another user's file: names it and the remedy.
    pub fn create(path: &Path) -> Result<Self> {
        replaceable(path)?;
        let folder = parent_of(path);
        let file = unnamed(folder).with_context(|| {
            let remedy = if folder.is_dir() { "" } else { "create the folder, or " };
            format!("cannot write {}; {remedy}choose another path", path.display())
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// An output file that another process wrote; `path` is for messages.
    pub fn of(file: File, path: PathBuf) -> Self {
        Self { path, file }
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the finished file to its place, in one step, and returns its size in bytes. It keeps the mode of an old
    /// file of ours; a new one has the mode that the umask leaves.
    ///
    /// # Errors
    /// When the disk is full, the folder was removed, or another user's file is there.
    pub fn finish(mut self) -> Result<u64> {
        let place = || {
            format!(
                "cannot finish {}; free disk space, or choose another path",
                self.path.display()
            )
        };
        let old = replaceable(&self.path)?;
        if let Some(old) = &old {
            let mode = old.permissions().mode() & 0o777;
            self.file
                .set_permissions(fs::Permissions::from_mode(mode))
                .with_context(place)?;
        }
        let size = self.file.metadata().with_context(place)?.len();
        let fresh = tempfile::Builder::new()
            .prefix(".ngmi-")
            .suffix(".new")
            .make_in(parent_of(&self.path), |fresh| name(&mut self.file, fresh));
        let placed = fresh.and_then(|fresh| match old {
            Some(_) => fresh.persist(&self.path).map_err(|error| error.error),
            None => fresh.persist_noclobber(&self.path).map_err(|error| error.error),
        });
        placed.with_context(place)?;
        Ok(size)
    }
}

/// Creates an unnamed file in a folder, with the mode that the umask leaves.
fn unnamed(folder: &Path) -> std::io::Result<File> {
    let unnamed = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(NEW_MODE)
        .open(folder);
    // Not every file system has unnamed files. Elsewhere, the message would name a file of ours.
    unnamed.or_else(|error| {
        use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
        if matches!(
            error.kind(),
            NotFound | PermissionDenied | ReadOnlyFilesystem | StorageFull
        ) {
            return Err(error);
        }
        let named = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(NEW_MODE))
            .tempfile_in(folder)?;
        Ok(named.into_file())
    })
}

/// Gives an unnamed file a name that does not exist yet.
fn name(file: &mut File, to: &Path) -> std::io::Result<()> {
    match link(file, to) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => copy(file, to),
        linked => linked,
    }
}

/// Links an unnamed file to a name, which file systems with unnamed files support.
fn link(file: &File, to: &Path) -> std::io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    nix::unistd::linkat(AT_FDCWD, from.as_str(), AT_FDCWD, to, AtFlags::AT_SYMLINK_FOLLOW).map_err(Into::into)
}

fn copy(from: &mut File, to: &Path) -> std::io::Result<()> {
    from.seek(SeekFrom::Start(0))?;
    let mut file = create_new(to)?;
    let copied = file
        .set_permissions(from.metadata()?.permissions())
        .and_then(|()| std::io::copy(from, &mut file));
    if copied.is_err() {
        let _ = fs::remove_file(to);
    }
    copied.map(|_| ())
}

/// The place of an event log, shared with the signal handler, which may skip the profile at any moment.
#[derive(Debug)]
pub struct LogPlace {
    path: PathBuf,
    /// The final path, replacing an older log once there are events.
    wanted: Option<PathBuf>,
    /// The recorded program is running.
    begun: bool,
}

impl LogPlace {
    fn begin(&mut self) -> std::io::Result<()> {
        self.begun = true;
        if let Some(wanted) = self.wanted.take_if(|_| holds_events(&self.path)) {
            fs::rename(&self.path, &wanted)?;
            self.path = wanted;
        }
        Ok(())
    }

    /// The path of the log if something was recorded; otherwise removes it, even if it was requested.
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
    place: Arc<Mutex<LogPlace>>,
    keep: bool,
    file: File,
}

impl Spool {
    /// Creates the log: for `keep`, where an older one stays until [`Self::begin`], or next to the output under its
    /// own name.
    ///
    /// # Errors
    /// When it can't be created: names it and the remedy.
    pub fn create(output: &Path, keep: Option<&Path>) -> Result<Self> {
        let Some(keep) = keep else {
            return Self::temporary(output);
        };
        if place_of(output) == place_of(keep) {
            bail!(
                "{} is the path of both the profile (-o) and the event log (--keep-events); choose another one for the log",
                keep.display()
            );
        }
        replaceable(keep)?;
        let (file, fresh) = new_name(keep, ".new").with_context(|| {
            format!(
                "cannot write the event log {}; choose another path with --keep-events",
                keep.display()
            )
        })?;
        Ok(Self::new(fresh, Some(keep.to_owned()), file))
    }

    /// `OUTPUT.events`; or a new name if a log or another user's file is there.
    fn temporary(output: &Path) -> Result<Self> {
        let mut path = OsString::from(output);
        path.push(".events");
        let path = PathBuf::from(path);
        let created = match create_new(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => new_name(output, ".events"),
            created => created.map(|file| (file, path)),
        };
        let (file, path) =
            created.with_context(|| format!("cannot write {}.events; choose another path", output.display()))?;
        Ok(Self::new(path, None, file))
    }

    fn new(path: PathBuf, wanted: Option<PathBuf>, file: File) -> Self {
        let keep = wanted.is_some();
        let place = LogPlace {
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

    fn place(&self) -> MutexGuard<'_, LogPlace> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current and final path, shared.
    pub fn shared_place(&self) -> Arc<Mutex<LogPlace>> {
        self.place.clone()
    }

    /// The log's file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The log's file, for appending.
    pub fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    /// The current path.
    pub fn path(&self) -> PathBuf {
        self.place().path.clone()
    }

    /// Whether the user requested to keep it.
    pub fn is_kept(&self) -> bool {
        self.keep
    }

    /// Notes that the recorded program is running: the log replaces an older one.
    pub fn begin(&self) {
        let mut place = self.place();
        if let Err(error) = place.begin() {
            print_note(format_args!(
                "the event log stays in {}: it could not be renamed: {error}",
                place.path.display()
            ));
        }
    }

    /// The path of the log if something was recorded; otherwise removes it, even if it was requested.
    pub fn keep_or_remove(&self) -> Option<PathBuf> {
        self.place().keep_or_remove()
    }

    /// Removes the log, unless it was requested.
    pub fn discard(&self) {
        if !self.keep {
            let _ = fs::remove_file(&self.place().path);
        }
    }
}

fn holds_events(log: &Path) -> bool {
    // Opened again: capture writes at the offset of our own descriptor.
    let log = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(log);
    log.and_then(LogReader::new).is_ok_and(|log| log.has(ChunkKind::Events))
}

/// A new file in the folder of `path`, under an unpredictable name: that of `path`, random characters, and `suffix`.
fn new_name(path: &Path, suffix: &str) -> std::io::Result<(File, PathBuf)> {
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push(".");
    let made = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(suffix)
        .make_in(parent_of(path), create_new)?;
    made.keep().map_err(|error| error.error)
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

/// Where a file is or will be, however its folder is spelled.
fn place_of(path: &Path) -> (PathBuf, Option<&OsStr>) {
    let folder = parent_of(path);
    (
        folder.canonicalize().unwrap_or_else(|_| folder.to_owned()),
        path.file_name(),
    )
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The old file, if there is one that may be replaced: a regular file of ours. Another user must choose neither the
/// mode nor the place of the new one.
fn replaceable(path: &Path) -> Result<Option<Metadata>> {
    if path.file_name().is_none() {
        bail!(
            "`{}` is not a file name; use one such as `profile.json.gz`",
            path.display()
        );
    }
    let Ok(old) = fs::symlink_metadata(path) else {
        return Ok(None);
    };
    if old.is_dir() {
        bail!("{} is a directory; name a file in it", path.display());
    }
    if !old.is_file() {
        bail!(
            "{} is not a regular file, and would be replaced; choose another path",
            path.display()
        );
    }
    if old.uid() != nix::unistd::geteuid().as_raw() {
        bail!(
            "{} is a file of user {}, and would be replaced; remove it, or choose another path",
            path.display(),
            old.uid()
        );
    }
    Ok(Some(old))
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
