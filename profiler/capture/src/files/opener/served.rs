//! Files that a program on this machine serves (FUSE): they are copied, since mapping, reading or closing one waits for that program.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, fchown};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{major, minor};
use nix::sys::statfs::{FsType, fstatfs};

/// From `linux/magic.h`.
const FUSE_SUPER_MAGIC: FsType = FsType(0x6573_5546);
/// Bytes that are read between two progress messages.
const PIECE: usize = 1 << 20;

/// Whether a program serves the file. A hypervisor (virtiofs) does not count: it answers as a disk does.
pub(super) fn by_a_program(file: &File) -> io::Result<bool> {
    if fstatfs(file)?.filesystem_type() != FUSE_SUPER_MAGIC {
        return Ok(false);
    }
    let device = file.metadata()?.dev();
    let list = fs::read("/proc/self/mountinfo").unwrap_or_default();
    Ok(!is_virtiofs(&list, &format!("{}:{}", major(device), minor(device))))
}

/// Whether a device is virtiofs by `list`, the contents of `/proc/PID/mountinfo` (Documentation/filesystems/proc.rst of the kernel).
fn is_virtiofs(list: &[u8], device: &str) -> bool {
    String::from_utf8_lossy(list).lines().any(|line| {
        let kind = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next());
        line.split(' ').nth(2) == Some(device) && kind == Some("virtiofs")
    })
}

/// A copy in memory with the owner of the file.
pub(super) fn copied(file: &File, limit: u64, copying: &dyn Fn()) -> io::Result<File> {
    let metadata = file.metadata()?;
    if metadata.len() > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "a program serves it (FUSE), and it is too large to copy ({} bytes)",
                metadata.len()
            ),
        ));
    }
    let mut copy = File::from(memfd_create("ngmi-copy", MFdFlags::MFD_CLOEXEC)?);
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    while offset < metadata.len() {
        let read = file.read_at(&mut piece, offset)?;
        let left = usize::try_from(metadata.len() - offset).unwrap_or(PIECE);
        let Some(bytes) = piece.get(..read.min(left)).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        copy.write_all(bytes)?;
        offset += bytes.len() as u64;
        copying();
    }
    let _ = fchown(&copy, Some(metadata.uid()), Some(metadata.gid())); // debug info is trusted if the owner wrote it
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypervisor_is_not_a_program() {
        let list = b"22 1 0:21 / / rw shared:1 - virtiofs root rw\n30 22 0:25 / /mnt rw - fuse.sshfs host: rw\n";
        assert!(is_virtiofs(list, "0:21"));
        assert!(!is_virtiofs(list, "0:25") && !is_virtiofs(list, "0:2"));
    }

    #[test]
    fn a_copy_has_the_same_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; PIECE + 5]).unwrap();
        let signs = std::cell::Cell::new(0);
        let copy = copied(&file, 2 << 20, &|| signs.set(signs.get() + 1)).unwrap();
        let mut bytes = vec![0; PIECE + 6];
        assert_eq!(copy.read_at(&mut bytes, 0).unwrap(), PIECE + 5);
        assert!(bytes[..PIECE + 5].iter().all(|byte| *byte == 7) && signs.get() == 2);
        assert!(
            copied(&file, PIECE as u64, &|| {}).is_err(),
            "it is larger than a copy may be"
        );
    }
}
