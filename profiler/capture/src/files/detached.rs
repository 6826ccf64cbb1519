//! Opens files without keeping their mounts busy.
//!
//! An open file makes its mount busy, even for the moment in which its unwind information is read, and a script that unmounts an image in that moment would fail.
//! So the file is opened through a separate mount that no other process sees (`open_tree`, Linux 5.2): the original mount stays free, and the file system goes
//! away with the last of the two. This needs `CAP_SYS_ADMIN`. The original mount is busy only while the kernel looks up the path, some microseconds: hence the
//! order of the system calls here.

use std::ffi::{CStr, CString, c_int};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;

use rustc_hash::FxHashSet;

use super::open::place;
use crate::proc::procfs;

/// `OPEN_TREE_CLONE` of `linux/mount.h`.
const CLONE: c_int = 1;

/// The kernel's id of the mount that a file was opened through. Not of its device: the same file system may be mounted twice, and each mount is busy
/// separately.
pub fn mount_of(file: &File) -> Option<u64> {
    procfs::fdinfo(file, "mnt_id:")
}

/// The mounts that this process keeps busy while it runs.
pub fn anchors() -> &'static FxHashSet<u64> {
    &ours().mounts
}

struct Ours {
    mounts: FxHashSet<u64>,
    devices: FxHashSet<u64>,
}

fn ours() -> &'static Ours {
    static OURS: OnceLock<Ours> = OnceLock::new();
    OURS.get_or_init(|| {
        let opened = ["/", ".", "/proc/self/exe"]
            .into_iter()
            .filter_map(|path| File::open(path).ok());
        let opened: Vec<File> = opened.collect();
        Ours {
            mounts: opened.iter().filter_map(mount_of).collect(),
            devices: opened.iter().filter_map(device_of).collect(),
        }
    })
}

fn device_of(file: &File) -> Option<u64> {
    Some(file.metadata().ok()?.dev())
}

/// Opens what a link of `/proc` leads to, as [`place`] does, through a separate mount.
///
/// # Errors
/// When the link leads nowhere, or its process has ended.
pub(crate) fn through_link(link: &Path) -> io::Result<File> {
    // A look at the file keeps no mount busy, unlike a descriptor.
    if ours().devices.contains(&fs::metadata(link)?.dev()) {
        return place(link).map(detached);
    }
    let name = CString::new(link.as_os_str().as_bytes())?;
    match open_tree(libc::AT_FDCWD, &name, 0) {
        Some(file) => Ok(file),
        None => place(link),
    }
}

/// Reopens `place` through a separate mount. Returns it unchanged where this process keeps its mount busy anyway, or may not create another one. Compares
/// the device first: every microsecond counts if the mount is being unmounted.
pub(crate) fn detached(place: File) -> File {
    let ours = ours();
    let is_of_ours = device_of(&place).is_some_and(|device| ours.devices.contains(&device));
    if is_of_ours && mount_of(&place).is_some_and(|mount| ours.mounts.contains(&mount)) {
        return place;
    }
    open_tree(place.as_raw_fd(), c"", libc::AT_EMPTY_PATH).unwrap_or(place)
}

fn open_tree(folder: RawFd, path: &CStr, flags: c_int) -> Option<File> {
    let flags = CLONE | libc::O_CLOEXEC | flags;
    // SAFETY: the path is a NUL-terminated string; the kernel keeps neither it nor anything else of ours.
    let number = unsafe { libc::syscall(libc::SYS_open_tree, folder, path.as_ptr(), flags) };
    let number = RawFd::try_from(number).ok().filter(|number| *number >= 0)?;
    // SAFETY: the kernel has just created this descriptor for us; nothing else owns it.
    Some(unsafe { File::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_mount_with_an_open_file_can_be_unmounted() {
        let folder = tempfile::tempdir().unwrap();
        let run = |program: &str, words: &[&str]| {
            let status = Command::new(program).args(words).arg(folder.path()).output();
            status.is_ok_and(|output| output.status.success())
        };
        if !run("mount", &["-t", "tmpfs", "none"]) {
            println!("skipped: no tmpfs can be mounted here");
            return;
        }
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        let place = place(&path).unwrap();
        let before = mount_of(&place).unwrap();
        assert!(!anchors().contains(&before));
        let place = detached(place);
        assert_ne!(mount_of(&place), Some(before));
        let unmounted = run("umount", &[]);
        if !unmounted {
            run("umount", &["-l"]);
        }
        assert!(unmounted);
        let text = fs::read_to_string(format!("/proc/self/fd/{}", place.as_raw_fd()));
        assert_eq!(text.unwrap(), "text");
    }

    #[test]
    fn a_busy_mount_is_left_unchanged() {
        let place = File::open("/proc/self/exe").unwrap();
        let before = mount_of(&place);
        assert!(before.is_some());
        assert_eq!(mount_of(&detached(place)), before);
    }
}
