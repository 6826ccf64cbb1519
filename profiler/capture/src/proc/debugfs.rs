//! The kernel's debug file system, mounted or not: reads and writes a setting in it, and leaves the machine's mounts
//! as they are.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{FsType, fstatfs};

/// Where it is usually mounted.
const USUAL_PLACE: &str = "/sys/kernel/debug";
/// `DEBUGFS_MAGIC` of `include/uapi/linux/magic.h`.
const MAGIC: FsType = FsType(0x6462_6720);
/// `FSOPEN_CLOEXEC`, `FSMOUNT_CLOEXEC` and `FSCONFIG_CMD_CREATE` of `include/uapi/linux/mount.h`.
const CLOEXEC: libc::c_uint = 1;
const CMD_CREATE: libc::c_uint = 6;
/// Bytes of a setting that are read at most.
const LONGEST: u64 = 64;

/// The root folder of debugfs.
#[derive(Debug)]
pub struct Debugfs(OwnedFd);

impl Debugfs {
    /// Opens the mounted one, or mounts a private one: it has no place in the file system tree, and disappears with
    /// its descriptor, however this process ends.
    ///
    /// # Errors
    /// When the kernel has none, or refuses access.
    pub fn open() -> io::Result<Self> {
        match Self::at(Path::new(USUAL_PLACE)) {
            Ok(folder) if fstatfs(&folder.0).is_ok_and(|fs| fs.filesystem_type() == MAGIC) => Ok(folder),
            _ => Ok(Self(detached()?)),
        }
    }

    /// Opens any folder in its place.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn at(folder: &Path) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        Ok(Self(open(folder, flags, Mode::empty())?))
    }

    /// Reads a number from a setting.
    ///
    /// # Errors
    /// When there is no such setting, it is refused, or it does not contain a number.
    pub fn read(&self, name: &str) -> io::Result<u64> {
        let mut text = String::new();
        let file = openat(
            &self.0,
            name,
            OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW,
            Mode::empty(),
        )?;
        File::from(file).take(LONGEST).read_to_string(&mut text)?;
        let number = text.lines().next().and_then(|line| line.trim().parse().ok());
        number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{name} does not contain a number")))
    }

    /// Writes a setting.
    ///
    /// # Errors
    /// When there is no such setting, or the kernel refuses the write.
    pub fn write(&self, name: &str, value: u64) -> io::Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let file = openat(&self.0, name, flags, Mode::empty())?;
        File::from(file).write_all(format!("{value}\n").as_bytes())
    }

    /// Checks that a setting can be written, without writing it.
    ///
    /// # Errors
    /// When there is no such setting, or it is refused.
    pub fn may_write(&self, name: &str) -> io::Result<()> {
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        openat(&self.0, name, flags, Mode::empty())
            .map(drop)
            .map_err(io::Error::from)
    }
}

/// Creates a mount without a place in the tree: fsopen(2), fsconfig(2) and fsmount(2), Linux 5.2 and later.
fn detached() -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string that lives until the call returns.
    let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, c"debugfs".as_ptr(), CLOEXEC) })?;
    let (nothing, zero) = (std::ptr::null::<libc::c_char>(), 0 as libc::c_int);
    let raw: RawFd = context.as_raw_fd();
    // SAFETY: this command takes neither a key nor a value.
    let made = unsafe { libc::syscall(libc::SYS_fsconfig, raw, CMD_CREATE, nothing, nothing, zero) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: numbers only.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, raw, CLOEXEC, 0 as libc::c_uint) })
}

fn descriptor(answer: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(answer) {
        // SAFETY: the kernel has just created it, for us alone.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
