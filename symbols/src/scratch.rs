//! The folder for unnamed files that do not fit in memory.

use std::path::{Path, PathBuf};

use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

/// Magic numbers from `linux/magic.h`.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

/// The folder from the environment; else the default one, unless that is in memory, too.
pub fn folder() -> PathBuf {
    let usual = std::env::temp_dir();
    if std::env::var_os("TMPDIR").is_none() && is_memory(&usual) {
        return "/var/tmp".into();
    }
    usual
}

fn is_memory(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|fs| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&fs.filesystem_type()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_file_systems_are_recognized() {
        for (folder, expected) in [("/dev/shm", true), ("/proc", false), ("/nonexistent", false)] {
            let is_there = Path::new(folder).exists();
            assert_eq!(is_memory(Path::new(folder)), expected && is_there, "{folder}");
        }
    }
}
