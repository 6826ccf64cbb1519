//! Writes the event log. When the disk is full, the log ends at its last whole chunk, and the recording continues
//! without it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::statfs::{
    BPF_FS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, FsType, PROC_SUPER_MAGIC, SECURITYFS_MAGIC,
    SELINUX_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, fstatfs,
};
use profiler_common::Loss;

use crate::hooks::losses::Losses;
use base::event::write::LogWriter;
use base::event::{Event, Header};

/// The log of a recording.
pub struct Log {
    writer: LogWriter<File>,
    file: File,
    failure: Option<io::Error>,
}

impl Log {
    /// Begins a log in a descriptor that the recorder opened.
    pub fn new(descriptor: OwnedFd, header: &Header) -> io::Result<Self> {
        let file = File::from(descriptor);
        require_plain(&file)?;
        Ok(Self {
            writer: LogWriter::new(file.try_clone()?, header)?,
            file,
            failure: None,
        })
    }

    /// Writes an event, or counts it as lost.
    pub fn event(&mut self, event: &Event<'_>, losses: &mut Losses) {
        if self.failure.is_some() {
            losses.count(Loss::LogWriteFailed, 1);
        } else if let Err(error) = self.writer.event(event) {
            losses.count(Loss::LogWriteFailed, 1);
            // An event that is too long is rejected without other effects.
            if error.kind() != io::ErrorKind::InvalidInput {
                self.fail(error);
            }
        }
    }

    /// Writes the losses that have changed since the last call.
    pub fn losses(&mut self, losses: &mut Losses) {
        for (loss, count) in losses.changed() {
            let loss = loss as u32;
            self.event(&Event::Loss { loss, count }, losses);
        }
    }

    /// Passes the buffered events to the kernel: they then outlive this process.
    pub fn flush(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.writer.flush_chunk()
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: io::Error) {
        // Readers would skip a half-written chunk at the end; without it, the file is whole.
        let _ = self.file.set_len(self.writer.good_bytes());
        self.failure = Some(error);
    }

    /// Why the log can't be written any more.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Its length so far.
    pub fn bytes(&self) -> u64 {
        if self.failure.is_some() {
            self.writer.good_bytes()
        } else {
            self.writer.bytes_written()
        }
    }
}

/// File systems whose regular files are kernel settings, some of which check the writing process and not the opening
/// one.
const SWITCHES: [FsType; 9] = [
    PROC_SUPER_MAGIC,
    SYSFS_MAGIC,
    CGROUP_SUPER_MAGIC,
    CGROUP2_SUPER_MAGIC,
    DEBUGFS_MAGIC,
    TRACEFS_MAGIC,
    SECURITYFS_MAGIC,
    BPF_FS_MAGIC,
    SELINUX_MAGIC,
];

/// Accepts only a regular file: root would block on a pipe that is not read, and a device or a kernel setting may do
/// for root what it refuses to the process that opened it.
fn require_plain(file: &File) -> io::Result<()> {
    let invalid = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !file.metadata()?.is_file() || SWITCHES.contains(&fstatfs(file)?.filesystem_type()) {
        return invalid("it is not a regular file");
    }
    let flags = OFlag::from_bits_truncate(fcntl(file, FcntlArg::F_GETFL)?);
    if flags.contains(OFlag::O_PATH) || flags & OFlag::O_ACCMODE == OFlag::O_RDONLY {
        return invalid("it was not opened to be written to");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn only_a_regular_file_that_can_be_written_to_is_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, pipe) = (folder.path().join("plain"), folder.path().join("pipe"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let open = |path: &Path, flags| {
            let mut options = File::options();
            options.read(true).write(flags == 0).custom_flags(flags);
            options.open(path).unwrap()
        };
        File::create(&plain).unwrap();
        assert!(require_plain(&open(&plain, 0)).is_ok());
        for (path, flags) in [
            (plain.as_path(), libc::O_CLOEXEC),
            (&plain, libc::O_PATH),
            (&pipe, 0),
            (folder.path(), libc::O_DIRECTORY),
            (Path::new("/dev/null"), 0),
            (Path::new("/proc/self/comm"), 0),
        ] {
            assert!(require_plain(&open(path, flags)).is_err(), "{}", path.display());
        }
    }
}
