//! The identity and state of a file, without reading it: the recorder must not warm the files of a program that is to
//! start cold.

use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use nix::libc::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC};
use nix::sys::statfs::{FsType, fstatfs};
use sha2::{Digest as _, Sha256};

/// File systems that set the time of a file's last change themselves, and that only root mounts. On others (FUSE, an
/// overlay in a user namespace) a user controls it.
const HONEST: [FsType; 4] = [
    FsType(EXT4_SUPER_MAGIC),
    FsType(XFS_SUPER_MAGIC as _),
    FsType(BTRFS_SUPER_MAGIC),
    F2FS,
];
/// Of `linux/magic.h`.
const F2FS: FsType = FsType(0xf2f5_2010);
/// A file that was changed within this time may change again without a new time.
const SETTLED: Duration = Duration::from_secs(2);

/// The state of a file: a different file, or the same one after a change, has a different stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(String);

impl Stamp {
    /// The stamp of an open file; `None` where it would prove nothing.
    pub fn of(file: &File) -> Option<Self> {
        let kind = fstatfs(file).ok()?.filesystem_type();
        HONEST.contains(&kind).then(|| Self::from(&file.metadata().ok()?))?
    }

    fn from(meta: &Metadata) -> Option<Self> {
        // The file's owner can set mtime; only the kernel sets ctime.
        let changed = Duration::new(
            u64::try_from(meta.ctime()).ok()?,
            u32::try_from(meta.ctime_nsec()).ok()?,
        );
        let age = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH + changed)
            .ok()?;
        let mut text = format!("{} {} {} {changed:?}", meta.dev(), meta.ino(), meta.size());
        // An anonymous device number may mean another file system after the next boot.
        if nix::sys::stat::major(meta.dev()) == 0 {
            text += &fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        }
        let hash = Sha256::digest(&text);
        let name = hash.iter().fold(String::new(), |mut name, byte| {
            let _ = write!(name, "{byte:02x}"); // writing to a string can't fail
            name
        });
        (age > SETTLED).then_some(Self(name))
    }

    /// A stamp that no file has.
    #[cfg(test)]
    pub fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The stamp as a file name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_just_changed_file_has_no_stamp() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Stamp::from(&file.metadata().unwrap()), None);
        // Even if its owner sets the modification time.
        file.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
        assert_eq!(Stamp::from(&file.metadata().unwrap()), None);
    }

    #[test]
    fn files_have_different_stamps() {
        let of = |path: &str| Stamp::from(&fs::metadata(path).unwrap()).unwrap();
        assert_eq!(of("/etc/passwd"), of("/etc/passwd"));
        assert_ne!(of("/etc/passwd"), of("/etc/group"));
    }

    #[test]
    fn synthetic_files_have_no_stamp() {
        for path in ["/proc/self/maps", "/sys/kernel/notes", "/dev/null"] {
            assert_eq!(File::open(path).ok().and_then(|file| Stamp::of(&file)), None, "{path}");
        }
    }
}
