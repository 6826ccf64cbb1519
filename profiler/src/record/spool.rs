//! The files that a recording makes: nothing half-written takes an old file's place, and nothing is followed through a link.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::fcntl::{AT_FDCWD, AtFlags};

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

/// The event log of a recording.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    keep: bool,
    file: File,
}

impl Spool {
    /// Creates the log: at `keep`, or beside the output under a name of its own.
    ///
    /// # Errors
    /// When it can't be created: named, with what to do.
    pub fn create(output: &Path, keep: Option<&Path>) -> Result<Self> {
        let Some(keep) = keep else { return Self::beside(output) };
        refuse_special(keep)?;
        let remedy = || {
            format!(
                "cannot write the event log {}; name another place with --keep-events",
                keep.display()
            )
        };
        let mut fresh = keep.as_os_str().to_owned();
        fresh.push(format!(".{}.new", std::process::id()));
        let fresh = PathBuf::from(fresh);
        let file = create_new(&fresh).with_context(remedy)?;
        if let Err(error) = fs::rename(&fresh, keep) {
            let _ = fs::remove_file(&fresh);
            return Err(error).with_context(remedy);
        }
        Ok(Self {
            path: keep.to_owned(),
            keep: true,
            file,
        })
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
                Ok(file) => {
                    return Ok(Self {
                        path,
                        keep: false,
                        file,
                    });
                }
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

    /// The log's file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The log's file, to append to.
    pub fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The person asked for it to stay.
    pub fn is_kept(&self) -> bool {
        self.keep
    }

    /// Removes the log, unless it was asked for.
    pub fn discard(self) {
        if !self.keep {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Removes the log even if it was asked for: nothing was recorded.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
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
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b\n.json.gz");
        fs::write(&path, "old").unwrap();
        let mut output = Output::create(&path).unwrap();
        output.file().write_all(b"new!").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(output);
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "nothing half-written stays"
        );
        let mut output = Output::create(&path).unwrap();
        output.file().write_all(b"new!").unwrap();
        assert_eq!(output.finish().unwrap(), 4);
        assert_eq!(fs::read(&path).unwrap(), b"new!");
    }

    #[test]
    fn special_places_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        for path in [
            dir.path(),
            &link,
            Path::new("/dev/null"),
            Path::new("/no/such/folder/x"),
            Path::new(".."),
        ] {
            let error = format!("{:#}", Output::create(path).unwrap_err());
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
    }

    #[test]
    fn a_leftover_log_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("p.json.gz");
        let first = Spool::create(&output, None).unwrap();
        let second = Spool::create(&output, None).unwrap();
        assert_ne!(first.path(), second.path());
        second.discard();
        assert!(first.path().exists());
        let kept = Spool::create(&output, Some(&dir.path().join("log"))).unwrap();
        let path = kept.path().to_owned();
        kept.discard();
        assert!(path.exists());
    }
}
