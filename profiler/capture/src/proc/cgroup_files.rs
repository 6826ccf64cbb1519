//! What the files of one cgroup show: its memory, its limits, and the pressure on its tasks.
//!
//! Formats: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and Documentation/accounting/psi.rst of Linux.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

use super::procfs;
use base::event::usage::{MemoryEvents, Pressure, UsageHierarchy, UsageSample};

/// Bytes of a file that are read, several times those of the longest one.
const MAX_FILE: u64 = 4096;
/// From this limit on version 1 has none: `PAGE_COUNTER_MAX` of `linux/page_counter.h`, in bytes, is just below 2^63.
const NO_LIMIT: u64 = 1 << 62;

/// What the files of the cgroup in this folder show now.
///
/// # Errors
/// The cgroup is gone, or may not be read.
pub fn read(folder: &Path, hierarchy: UsageHierarchy) -> io::Result<UsageSample> {
    let time = procfs::now();
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let files = Files(open(folder, flags, Mode::empty())?);
    Ok(match hierarchy {
        UsageHierarchy::Version2 => UsageSample {
            time,
            memory: files.number("memory.current")?,
            swap: files.number("memory.swap.current")?,
            max: files.number("memory.max")?,
            high: files.number("memory.high")?,
            events: files.events()?,
            cpu: files.text("cpu.pressure")?.and_then(|text| pressure(&text)),
            memory_pressure: files.text("memory.pressure")?.and_then(|text| pressure(&text)),
            io: files.text("io.pressure")?.and_then(|text| pressure(&text)),
        },
        UsageHierarchy::MemoryVersion1 => UsageSample {
            time,
            memory: files.number("memory.usage_in_bytes")?,
            max: files.number("memory.limit_in_bytes")?.filter(|limit| *limit < NO_LIMIT),
            events: files.number("memory.failcnt")?.map(|max| MemoryEvents {
                max,
                ..MemoryEvents::default()
            }),
            ..UsageSample::default()
        },
    })
}

/// The folder of a cgroup.
struct Files(OwnedFd);

impl Files {
    /// The beginning of a file; `None`: the cgroup has no such file, or the kernel does not support it.
    fn text(&self, name: &str) -> io::Result<Option<String>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = match openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT | Errno::EACCES) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut text = Vec::new();
        match file.take(MAX_FILE).read_to_end(&mut text) {
            Ok(_) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            // Pressure that is turned off, for all (`psi=0`) or for this cgroup (`cgroup.pressure`).
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What happened to the cgroup itself: `memory.events` also counts what happened to those below it.
    fn events(&self) -> io::Result<Option<MemoryEvents>> {
        let parsed = |name| Ok::<_, io::Error>(self.text(name)?.map(|text| events(&text)));
        Ok(match (parsed("memory.events.local")?, parsed("memory.events")?) {
            // A killed process may be in one below.
            (Some(own), Some(all)) => Some(MemoryEvents {
                oom_kill: all.oom_kill,
                ..own
            }),
            (own, all) => own.or(all),
        })
    }

    /// A file with one number; `None` also if it is `max`.
    fn number(&self, name: &str) -> io::Result<Option<u64>> {
        Ok(self.text(name)?.and_then(|text| text.trim().parse().ok()))
    }
}

/// Parses `memory.events`.
fn events(text: &str) -> MemoryEvents {
    let mut events = MemoryEvents::default();
    for (name, count) in text.lines().filter_map(|line| line.split_once(' ')) {
        let slot = match name {
            "high" => &mut events.high,
            "max" => &mut events.max,
            "oom" => &mut events.oom,
            "oom_kill" => &mut events.oom_kill,
            _ => continue,
        };
        *slot = count.trim().parse().unwrap_or(0);
    }
    events
}

/// Parses a file of pressure: `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and `full` likewise.
fn pressure(text: &str) -> Option<Pressure> {
    let total = |kind: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
        let mut fields = line.split(' ');
        fields.find_map(|field| field.strip_prefix("total=")?.parse().ok())
    };
    Some(Pressure {
        some: total("some")?,
        // Kernels before 5.13 have none for the CPU.
        full: total("full").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PSI: &str =
        "some avg10=1.53 avg60=0.87 avg300=0.73 total=1088168\nfull avg10=0.00 avg60=0.13 avg300=0.11 total=23\n";

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn version_2_has_memory_and_pressure() {
        let events = "low 9\nhigh 1\nmax 2\noom 3\noom_kill 4\noom_group_kill 5\nsock_throttled 6\n";
        let files = folder(&[
            ("memory.current", "1048576\n"),
            ("memory.swap.current", "4096\n"),
            ("memory.max", "max\n"),
            ("memory.high", "2097152\n"),
            ("memory.events", events),
            ("cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
            ("memory.pressure", PSI),
        ]);
        let sample = read(files.path(), UsageHierarchy::Version2).unwrap();
        let expected = UsageSample {
            time: sample.time,
            memory: Some(1 << 20),
            swap: Some(4096),
            max: None,
            high: Some(2 << 20),
            events: Some(MemoryEvents {
                high: 1,
                max: 2,
                oom: 3,
                oom_kill: 4,
            }),
            cpu: Some(Pressure { some: 7, full: 0 }),
            memory_pressure: Some(Pressure {
                some: 1_088_168,
                full: 23,
            }),
            io: None,
        };
        assert_eq!((sample, sample.limit()), (expected, Some(2 << 20)));
    }

    #[test]
    fn version_1_has_memory_only() {
        let files = folder(&[
            ("memory.usage_in_bytes", "8192\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.failcnt", "3\n"),
            ("memory.pressure", PSI),
        ]);
        let sample = read(files.path(), UsageHierarchy::MemoryVersion1).unwrap();
        assert_eq!(
            (sample.memory, sample.limit(), sample.memory_pressure),
            (Some(8192), None, None)
        );
        assert_eq!(sample.events.map(|events| events.max), Some(3));
    }

    #[test]
    fn what_is_not_as_expected_is_unknown() {
        let files = folder(&[
            ("memory.current", "-1\n"),
            ("memory.events", "max\nmax x\n\n oom 1"),
            ("cpu.pressure", "some total=x\n"),
            ("io.pressure", &format!("{}some total=1\n", "\n".repeat(5000))),
        ]);
        std::os::unix::fs::symlink("memory.current", files.path().join("memory.max")).unwrap();
        assert!(
            read(files.path(), UsageHierarchy::Version2).is_err(),
            "it followed a link"
        );
        std::fs::remove_file(files.path().join("memory.max")).unwrap();
        let sample = read(files.path(), UsageHierarchy::Version2).unwrap();
        let expected = UsageSample {
            time: sample.time,
            events: Some(MemoryEvents::default()),
            ..UsageSample::default()
        };
        assert_eq!(sample, expected);
        assert!(read(&files.path().join("gone"), UsageHierarchy::Version2).is_err());
    }
}
